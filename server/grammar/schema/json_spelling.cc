#include "server/grammar/schema/json_spelling.h"

#include "absl/strings/str_format.h"
#include "server/grammar/regex/char_set.h"

namespace quire {

namespace {

inline constexpr uint32_t kMaxIndentation = 64;

// Characters that JSON may write as they are.
ExprId Unescaped(ExprStore* store) {
  const CharSet escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  return Spell(store, escaped.Complement(), Spelling::kText);
}

ExprId Hex(ExprStore* store, std::string_view first, std::string_view last) {
  // One digit, of either case.
  ByteSet digits;
  for (char c = first[0]; c <= last[0]; ++c) {
    const uint8_t byte = static_cast<uint8_t>(c);
    digits.Add(byte);
    if (c >= 'A' && c <= 'F') digits.Add(static_cast<uint8_t>(byte + 32));
  }
  return store->Bytes(digits);
}

ExprId FreeCharacter(ExprStore* store) {
  const ExprId letter = store->Bytes(ByteSet{'"', '\\', '/', 'b', 'f', 'n', 'r', 't'});
  const ExprId digit = Hex(store, "0", "9");
  const ExprId hex = store->Or(digit, Hex(store, "A", "F"));
  const ExprId two = store->Concat(hex, hex);
  const ExprId d = store->Bytes(ByteSet{'D', 'd'});
  // Four digits, but no half of a surrogate pair by itself.
  const ExprId single = store->Or(
      store->Concat(
          {store->Or(digit, store->Or(Hex(store, "A", "C"), Hex(store, "E", "F"))), hex, two}),
      store->Concat({d, Hex(store, "0", "7"), two}));
  const ExprId pair = store->Concat({d, store->Or(Hex(store, "8", "9"), Hex(store, "A", "B")), two,
                                     store->Literal("\\u"), d, Hex(store, "C", "F"), two});
  const ExprId coded = store->Concat(store->Byte('u'), store->Or(single, pair));
  return store->Or(Unescaped(store), store->Concat(store->Byte('\\'), store->Or(letter, coded)));
}

}  // namespace

std::string JsonSpelling(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '"':
      case '\\':
        result += '\\';
        result += c;
        break;
      case '\b':
        result += "\\b";
        break;
      case '\f':
        result += "\\f";
        break;
      case '\n':
        result += "\\n";
        break;
      case '\r':
        result += "\\r";
        break;
      case '\t':
        result += "\\t";
        break;
      default:
        if (static_cast<uint8_t>(c) < 0x20) {
          result += absl::StrFormat("\\u%04x", static_cast<uint8_t>(c));
        } else {
          result += c;
        }
    }
  }
  return result;
}

ExprId JsonText(ExprStore* store, uint32_t min, uint32_t max) {
  const ExprId character = Spell(store, CharSet::All(), Spelling::kJsonString);
  store->set_counted_character(character);
  return store->Repeat(character, min, max);
}

ExprId FreeJsonText(ExprStore* store, uint32_t min, uint32_t max) {
  return store->Repeat(FreeCharacter(store), min, max);
}

ExprId Quoted(ExprStore* store, ExprId content) {
  return store->Concat({store->Byte('"'), content, store->Byte('"')});
}

ExprId WhiteSpace(ExprStore* store) {
  const ExprId indentation = store->Or(store->Repeat(store->Byte(' '), 0, kMaxIndentation),
                                       store->Repeat(store->Byte('\t'), 0, kMaxIndentation / 4));
  const ExprId line =
      store->Concat({store->Optional(store->Byte('\r')), store->Byte('\n'), indentation});
  return store->Optional(store->Or(store->Byte(' '), line));
}

}  // namespace quire
