// The classes of characters that regular expressions name. Constant; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "server/grammar/regex/char_set.h"

namespace quire {

// \d, \w, \s and the characters that `.` leaves out, as ECMA-262 has them: digits and words are
// ASCII's.
const CharSet& DigitChars();
const CharSet& WordChars();
const CharSet& SpaceChars();
const CharSet& LineEndChars();

// [:name:], in ASCII. Nothing for an unknown name.
std::optional<CharSet> PosixChars(std::string_view name);

// \p{name}: a general category by its short or long name ("Lu", "Uppercase_Letter"), perhaps after
// "gc=" or "General_Category=", or Any, ASCII, Assigned. Nothing for other names, scripts among
// them.
std::optional<CharSet> PropertyChars(std::string_view name);

}  // namespace quire
