// The formats of strings that are enforced, as regular expressions.
#pragma once

#include <string_view>

namespace quire {

// A pattern that the whole string matches; null for formats that are not in JSON Schema's list,
// which are annotations.
const char* PatternOfFormat(std::string_view format);

}  // namespace quire
