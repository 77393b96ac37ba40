#include "server/text/answer/tag_finder.h"

namespace quire {

std::optional<size_t> TagFinder::Find(std::string_view* text, std::string* before) {
  for (size_t i = 0; i < text->size(); ++i) {
    held_.push_back((*text)[i]);
    std::optional<size_t> whole;
    while (!held_.empty() && !MayBeTag(&whole)) {
      before->push_back(held_.front());
      held_.erase(0, 1);
    }
    if (whole.has_value()) {
      held_.clear();
      text->remove_prefix(i + 1);
      return whole;
    }
  }
  text->remove_prefix(text->size());
  return std::nullopt;
}

bool TagFinder::MayBeTag(std::optional<size_t>* whole) const {
  for (size_t i = 0; i < tags_.size(); ++i) {
    if (!tags_[i].starts_with(held_)) continue;
    if (tags_[i].size() == held_.size()) *whole = i;
    return true;
  }
  return false;
}

}  // namespace quire
