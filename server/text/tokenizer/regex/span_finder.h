// The common part of steps that split a text or replace or remove parts of it: finding spans in it.
// Immutable; any thread. All texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/text/tokenizer/file/components.h"
#include "server/text/tokenizer/regex/regex.h"

namespace quire {

class SpanFinder {
 public:
  virtual ~SpanFinder() = default;

  // Hands `sink` the matches in `text` and the gaps between them, in order, covering all of it.
  // RESOURCE_EXHAUSTED when a regular expression gives up; errors of `sink`.
  virtual absl::Status Find(std::string_view text, RegexScratch* scratch, SpanSink sink) const = 0;
};

// Finds a literal, or a regular expression: by hand-written code if the pattern is a known one.
absl::StatusOr<std::unique_ptr<SpanFinder>> MakePatternFinder(const PatternSpec& pattern);

// Finds the literal `text`, which is not empty.
std::unique_ptr<SpanFinder> MakeLiteralFinder(std::string text);

// Each character with any of the CharClass bits `classes` is a match of its own.
std::unique_ptr<SpanFinder> MakeCharFinder(uint8_t classes);

// The matches of \w+|[^\w\s]+.
std::unique_ptr<SpanFinder> MakeWordFinder();

}  // namespace quire
