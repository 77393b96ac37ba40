#include "server/text/tokenizer/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"

namespace quire {

StopStrings::StopStrings(std::vector<std::string> texts) {
  for (std::string& text : texts) {
    CHECK(!text.empty()) << "an empty stop string";
    CHECK_LE(text.size(), size_t{UINT16_MAX});
    Pattern pattern;
    pattern.borders.resize(text.size());
    uint16_t border = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = pattern.borders[border - 1];
      if (text[i] == text[border]) ++border;
      pattern.borders[i] = border;
    }
    pattern.text = std::move(text);
    patterns_.push_back(std::move(pattern));
  }
}

StopMatcher::StopMatcher(std::shared_ptr<const StopStrings> stop_strings,
                         bool include_stop_in_output)
    : stop_strings_(std::move(stop_strings)),
      num_matched_(stop_strings_->size()),
      include_stop_in_output_(include_stop_in_output) {}

void StopMatcher::Advance(size_t index, char c) {
  const auto& [text, borders] = stop_strings_->patterns_[index];
  uint16_t& num_matched = num_matched_[index];
  if (num_matched == text.size()) num_matched = borders[num_matched - 1];
  while (num_matched > 0 && text[num_matched] != c) num_matched = borders[num_matched - 1];
  if (text[num_matched] == c) ++num_matched;
}

std::string_view StopMatcher::Append(std::string_view text, bool may_stop) {
  if (matched_.has_value()) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    for (size_t index = 0; index < num_matched_.size(); ++index) {
      Advance(index, text[i]);
      if (may_stop && is_complete(index) && !matched_.has_value()) matched_ = index;
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
  for (size_t index = 0; index < num_matched_.size(); ++index) {
    const uint16_t next =
        is_complete(index) ? stop_strings_->patterns_[index].borders.back() : num_matched_[index];
    could_match = std::max<size_t>(could_match, next);
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
