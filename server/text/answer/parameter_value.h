// The value of a parameter that a model wrote as a text, as JSON of a type that its schema allows.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// A set of the types that a JSON value may have.
using JsonTypes = uint8_t;
inline constexpr JsonTypes kJsonText = 1;
inline constexpr JsonTypes kJsonInteger = 2;
inline constexpr JsonTypes kJsonNumber = 4;  // with integers
inline constexpr JsonTypes kJsonBool = 8;
inline constexpr JsonTypes kJsonNull = 16;
inline constexpr JsonTypes kJsonObject = 32;
inline constexpr JsonTypes kJsonList = 64;
inline constexpr JsonTypes kAnyJson = 127;

// A text that is none of these types, in any spelling that models use, stays a text.
std::string ParameterToJson(std::string_view text, JsonTypes types);

}  // namespace quire
