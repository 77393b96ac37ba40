#include "server/tokenizer/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"

namespace quire {

StopMatcher::StopMatcher(std::vector<std::string> stop_strings, bool include_stop_in_output)
    : num_matched_(stop_strings.size()), include_stop_in_output_(include_stop_in_output) {
  std::vector<Pattern> patterns;
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
    patterns.push_back(std::move(pattern));
  }
  patterns_ = std::make_shared<const std::vector<Pattern>>(std::move(patterns));
}

size_t StopMatcher::Pattern::Advance(size_t num_matched, char c) const {
  if (num_matched == text.size()) num_matched = borders[num_matched - 1];
  while (num_matched > 0 && text[num_matched] != c) num_matched = borders[num_matched - 1];
  return text[num_matched] == c ? num_matched + 1 : num_matched;
}

std::string_view StopMatcher::Append(std::string_view text, bool may_stop) {
  if (matched_.has_value()) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    for (size_t index = 0; index < patterns_->size(); ++index) {
      const Pattern& pattern = (*patterns_)[index];
      size_t& num_matched = num_matched_[index];
      num_matched = pattern.Advance(num_matched, text[i]);
      const bool is_complete = num_matched == pattern.text.size();
      if (may_stop && is_complete && !matched_.has_value()) matched_ = index;
    }
    if (matched_.has_value()) {
      held_.append(text.substr(0, i + 1));
      const size_t stop_bytes = include_stop_in_output_ ? 0 : stop_string(*matched_).size();
      return Release(held_.size() - stop_bytes);
    }
  }
  held_.append(text);
  // A complete one that may not stop yet can still be the start of another match of itself.
  size_t could_match = 0;
  for (size_t index = 0; index < patterns_->size(); ++index) {
    const Pattern& pattern = (*patterns_)[index];
    const bool is_complete = num_matched_[index] == pattern.text.size();
    could_match = std::max(could_match, is_complete ? pattern.borders.back() : num_matched_[index]);
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
