#include "server/text/tokenizer/models/byte_level.h"

#include <array>

#include "absl/strings/str_format.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr size_t kNumBytes = 256;
constexpr char32_t kFirstSubstitute =
    256;  // bytes that are not visible take the code points from here on
constexpr size_t kNumSubstitutes = 68;
constexpr int kNoByte = -1;

struct Alphabet {
  std::array<std::string, kNumBytes> chars;
  std::array<int16_t, kFirstSubstitute + kNumSubstitutes> bytes;  // by code point
};

bool IsVisible(size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

const Alphabet& GetAlphabet() {
  static const Alphabet* const alphabet = [] {
    auto* a = new Alphabet;
    a->bytes.fill(kNoByte);
    char32_t substitute = kFirstSubstitute;
    for (size_t byte = 0; byte < kNumBytes; ++byte) {
      const char32_t code_point = IsVisible(byte) ? static_cast<char32_t>(byte) : substitute++;
      AppendUtf8(code_point, &a->chars[byte]);
      a->bytes[code_point] = static_cast<int16_t>(byte);
    }
    return a;
  }();
  return *alphabet;
}

}  // namespace

std::string_view ByteLevelChar(uint8_t byte) { return GetAlphabet().chars[byte]; }

std::optional<uint8_t> ByteLevelByte(char32_t code_point) {
  const Alphabet& alphabet = GetAlphabet();
  if (code_point >= alphabet.bytes.size() || alphabet.bytes[code_point] == kNoByte) {
    return std::nullopt;
  }
  return static_cast<uint8_t>(alphabet.bytes[code_point]);
}

void AppendByteLevelBytes(std::string_view token, std::string* out) {
  const size_t old_size = out->size();
  for (size_t pos = 0; pos < token.size();) {
    const DecodedChar c = DecodeChar(token.data() + pos);
    const std::optional<uint8_t> byte = ByteLevelByte(c.code_point);
    if (!byte.has_value()) {
      out->resize(old_size);
      out->append(token);
      return;
    }
    out->push_back(static_cast<char>(*byte));
    pos += c.num_bytes;
  }
}

std::optional<uint8_t> ParseByteToken(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  uint8_t value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = static_cast<uint8_t>(value * 16 + digit);
  }
  return value;
}

std::string ByteToken(uint8_t byte) { return absl::StrFormat("<0x%02X>", byte); }

}  // namespace quire
