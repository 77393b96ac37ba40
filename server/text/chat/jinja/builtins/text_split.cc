// Split and SplitFromRight: str.split and str.rsplit.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kernels/base/status_macros.h"
#include "server/text/byte_search.h"
#include "server/text/chat/jinja/builtins/text_operations.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/python_text.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

struct Range {
  size_t begin;
  size_t end;
};

// The words between white space; with a limit the last one is the rest of the text.
std::vector<Range> Words(std::string_view text, Integer max_splits) {
  std::vector<Range> words;
  size_t at = 0;
  while (at < text.size()) {
    const Character character = CharacterAt(text, at);
    if (IsSpace(character.code)) {
      at += character.size;
      continue;
    }
    if (max_splits-- == 0) {
      words.push_back({at, text.size()});
      return words;
    }
    const size_t begin = at;
    while (at < text.size() && !IsSpace(CharacterAt(text, at).code))
      at += CharacterAt(text, at).size;
    words.push_back({begin, at});
  }
  return words;
}

// The same from the end; with a limit the first one is the beginning of the text.
std::vector<Range> WordsFromRight(std::string_view text, Integer max_splits) {
  std::vector<Range> words;
  size_t end = text.size();
  while (end > 0) {
    size_t begin = PreviousCharacter(text, end);
    if (IsSpace(CharacterAt(text, begin).code)) {
      end = begin;
      continue;
    }
    if (max_splits-- == 0) {
      words.push_back({0, end});
      break;
    }
    while (begin > 0) {
      const size_t previous = PreviousCharacter(text, begin);
      if (IsSpace(CharacterAt(text, previous).code)) break;
      begin = previous;
    }
    words.push_back({begin, end});
    end = begin;
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::vector<size_t> Occurrences(std::string_view text, std::string_view separator) {
  std::vector<size_t> offsets;
  for (size_t at = 0;; at = offsets.back() + separator.size()) {
    const size_t found = FindBytes(text, separator, at);
    if (found == std::string_view::npos) return offsets;
    offsets.push_back(found);
  }
}

std::vector<size_t> OccurrencesFromRight(std::string_view text, std::string_view separator,
                                         Integer max_count) {
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_separator(separator.rbegin(), separator.rend());
  std::vector<size_t> offsets = Occurrences(reversed_text, reversed_separator);
  if (max_count >= 0 && static_cast<Integer>(offsets.size()) > max_count) {
    offsets.resize(static_cast<size_t>(max_count));
  }
  for (size_t& offset : offsets) offset = text.size() - offset - separator.size();
  std::reverse(offsets.begin(), offsets.end());
  return offsets;
}

std::vector<Range> Between(size_t text_size, size_t separator_size,
                           const std::vector<size_t>& offsets) {
  std::vector<Range> ranges;
  size_t begin = 0;
  for (const size_t offset : offsets) {
    ranges.push_back({begin, offset});
    begin = offset + separator_size;
  }
  ranges.push_back({begin, text_size});
  return ranges;
}

absl::StatusOr<std::vector<Value>> Slices(Runtime& runtime, const Text& text,
                                          const std::vector<Range>& ranges) {
  std::vector<Value> slices;
  slices.reserve(ranges.size());
  for (const Range& range : ranges) {
    ASSIGN_OR_RETURN(Value slice, runtime.NewText(text.Slice(range.begin, range.end)));
    slices.push_back(std::move(slice));
  }
  return slices;
}

absl::Status CheckSeparator(const Text& separator) {
  if (!separator.empty()) return absl::OkStatus();
  return Error("split needs a separator that is not empty");
}

}  // namespace

absl::StatusOr<std::vector<Value>> Split(Runtime& runtime, const Text& text, const Text* separator,
                                         Integer max_splits) {
  RETURN_IF_ERROR(runtime.Charge(1 + text.size() / kBytesPerStep));
  if (separator == nullptr) return Slices(runtime, text, Words(text.bytes(), max_splits));
  RETURN_IF_ERROR(CheckSeparator(*separator));
  std::vector<size_t> offsets = Occurrences(text.bytes(), separator->bytes());
  if (max_splits >= 0 && static_cast<Integer>(offsets.size()) > max_splits) {
    offsets.resize(static_cast<size_t>(max_splits));
  }
  return Slices(runtime, text, Between(text.size(), separator->size(), offsets));
}

absl::StatusOr<std::vector<Value>> SplitFromRight(Runtime& runtime, const Text& text,
                                                  const Text* separator, Integer max_splits) {
  RETURN_IF_ERROR(runtime.Charge(1 + text.size() / kBytesPerStep));
  if (separator == nullptr) return Slices(runtime, text, WordsFromRight(text.bytes(), max_splits));
  RETURN_IF_ERROR(CheckSeparator(*separator));
  const std::vector<size_t> offsets =
      OccurrencesFromRight(text.bytes(), separator->bytes(), max_splits);
  return Slices(runtime, text, Between(text.size(), separator->size(), offsets));
}

}  // namespace quire::jinja
