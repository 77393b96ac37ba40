// The common part of Python's str methods and Jinja's text filters. Every result keeps the origin
// of each byte that it took from its arguments. One render, one thread.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/values/runtime.h"
#include "server/text/chat/jinja/values/text.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

enum class StripSides { kBoth, kLeft, kRight };

// Without the characters of `characters` at its ends, or without white space there if `characters`
// is null.
Text Strip(const Text& text, const Text* characters, StripSides sides);

enum class CaseMapping {
  kUpper,
  kLower,
  kCapitalize,   // str.capitalize()
  kTitle,        // str.title(): a letter after a non-letter is upper case
  kTitleFilter,  // The title filter: words end at white space and -({[< only
  kSwap,
};

absl::StatusOr<Text> MapCase(Runtime& runtime, const Text& text, CaseMapping mapping);

// The first `max_count` occurrences (negative: all).
absl::StatusOr<Text> Replace(Runtime& runtime, const Text& text, const Text& from, const Text& to,
                             Integer max_count);

// str.split and str.rsplit with at most `max_splits` splits (negative: any); a null separator is
// white space.
absl::StatusOr<std::vector<Value>> Split(Runtime& runtime, const Text& text, const Text* separator,
                                         Integer max_splits);
absl::StatusOr<std::vector<Value>> SplitFromRight(Runtime& runtime, const Text& text,
                                                  const Text* separator, Integer max_splits);
absl::StatusOr<std::vector<Value>> SplitLines(Runtime& runtime, const Text& text, bool keep_ends);

// str() of every item with the separator between.
absl::StatusOr<Text> Join(Runtime& runtime, const Text& separator, const std::vector<Value>& items);

// The indent filter: `indentation` before every line, except the first (unless `first`) and blank
// ones (unless `blank`).
absl::StatusOr<Text> Indent(Runtime& runtime, const Text& text, const Text& indentation, bool first,
                            bool blank);

// str.format() with {}, {0} and {name}; conversions and format specifications are an error.
absl::StatusOr<Text> FormatBraces(Runtime& runtime, const Text& format,
                                  const std::vector<Value>& positional,
                                  const std::function<const Value*(std::string_view)>& named);

}  // namespace quire::jinja
