#include "server/tokenizer/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"

namespace quire {

StopMatcher::StopMatcher(std::vector<std::string> stop_strings, bool include_stop_in_output)
    : include_stop_in_output_(include_stop_in_output) {
  for (std::string& text : stop_strings) {
    CHECK(!text.empty()) << "an empty stop string";
    Pattern pattern;
    pattern.borders.resize(text.size());
    size_t border = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = pattern.borders[border - 1];
      if (text[i] == text[border]) ++border;
      pattern.borders[i] = border;
    }
    pattern.text = std::move(text);
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::Pattern::Advance(char c) {
  if (is_complete()) num_matched = borders[num_matched - 1];
  while (num_matched > 0 && text[num_matched] != c) num_matched = borders[num_matched - 1];
  if (text[num_matched] == c) ++num_matched;
}

std::string_view StopMatcher::Append(std::string_view text, bool may_stop) {
  if (matched_.has_value()) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    for (size_t index = 0; index < patterns_.size(); ++index) {
      Pattern& pattern = patterns_[index];
      pattern.Advance(text[i]);
      if (may_stop && pattern.is_complete() && !matched_.has_value()) matched_ = index;
    }
    if (matched_.has_value()) {
      held_.append(text.substr(0, i + 1));
      const size_t stop_bytes = include_stop_in_output_ ? 0 : patterns_[*matched_].text.size();
      return Release(held_.size() - stop_bytes);
    }
  }
  held_.append(text);
  // A complete one that may not stop yet can still be the start of another match of itself.
  size_t could_match = 0;
  for (const Pattern& pattern : patterns_) {
    could_match =
        std::max(could_match, pattern.is_complete() ? pattern.borders.back() : pattern.num_matched);
  }
  return Release(held_.size() - could_match);
}

std::string_view StopMatcher::Flush() {
  return matched_.has_value() ? std::string_view() : Release(held_.size());
}

std::string_view StopMatcher::Release(size_t num_bytes) {
  released_ = held_.substr(0, num_bytes);
  held_.erase(0, num_bytes);
  return released_;
}

}  // namespace quire
