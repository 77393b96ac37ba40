// The alphabet of byte-level vocabularies: each of the 256 bytes is written as one visible
// character, as in GPT-2 (' ' is "Ġ"). Pure functions over constant tables; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// The character that stands for `byte`, as UTF-8.
std::string_view ByteLevelChar(uint8_t byte);

// The byte that a character stands for; none for one outside the alphabet.
std::optional<uint8_t> ByteLevelByte(char32_t code_point);

// Appends to `out` the bytes that `token` stands for; `token` itself when it has a character
// outside the alphabet (as added tokens have).
void AppendByteLevelBytes(std::string_view token, std::string* out);

// The byte that a byte fallback token such as "<0x0A>" stands for.
std::optional<uint8_t> ParseByteToken(std::string_view token);

// The byte fallback token of `byte`.
std::string ByteToken(uint8_t byte);

}  // namespace quire
