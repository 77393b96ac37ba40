// The syntax of regular expressions: ECMA-262's, as JSON Schema has it, and what PCRE, Python and
// Rust have beside it and mean alike. Where they differ, ECMA-262 decides: [] is a class without
// characters, \d and \w are ASCII, $ is the very end, and {,n}, which it refuses, is {0,n}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/grammar/regex/regex_tree.h"

namespace quire {

struct RegexLimits {
  size_t max_pattern_bytes = size_t{64} << 10;
  int max_depth = 100;              // of groups within groups; a stack of 256 KiB has room for it
  uint32_t max_repeat = 100'000;    // of the counts in braces
  size_t max_num_ranges = 400'000;  // of characters, in all classes together
};

struct ParsedRegex {
  RegexTree tree;
  RegexNodeId root = 0;
};

// INVALID_ARGUMENT says where the pattern is wrong, UNIMPLEMENTED which construct has no meaning
// here: backreferences, possessive quantifiers and atomic groups, recursion, conditions, verbs,
// long lookbehinds, \p of scripts.
absl::StatusOr<ParsedRegex> ParseRegex(std::string_view pattern, const RegexLimits& limits);

}  // namespace quire
