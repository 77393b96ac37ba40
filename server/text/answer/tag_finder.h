// TagFinder: finds the first of some tags in a text that comes in parts. Only text that may be the
// beginning of a tag is held back. Time grows as the text. One thread at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

class TagFinder {
 public:
  // None is empty or the beginning of another.
  explicit TagFinder(std::vector<std::string> tags) : tags_(std::move(tags)) {}

  // Takes `*text` up to the end of the first tag, else all of it. Appends to `*before` the text
  // that is not part of a tag. Returns the tag's index.
  std::optional<size_t> Find(std::string_view* text, std::string* before);

  const std::string& tag(size_t index) const { return tags_[index]; }
  // The text ends: the held text is no tag.
  std::string TakeHeld() { return std::exchange(held_, {}); }

 private:
  // Whether a tag begins with the held text; `*whole` is the tag that equals it.
  bool MayBeTag(std::optional<size_t>* whole) const;

  const std::vector<std::string> tags_;
  std::string held_;  // a tag's beginning, shorter than the tag
};

}  // namespace quire
