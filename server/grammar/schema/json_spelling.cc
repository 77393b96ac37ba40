#include "server/grammar/schema/json_spelling.h"

#include "absl/strings/str_format.h"

namespace quire {

namespace {

inline constexpr uint32_t kMaxIndentation = 64;

// Characters beyond ASCII, as UTF-8: The Unicode Standard, table 3-7.
ExprId BeyondAscii(ExprStore* store) {
  const auto range = [store](int first, int last) {
    return store->Bytes(ByteSet::Range(first, last));
  };
  const ExprId tail = range(0x80, 0xBF);
  const ExprId two = store->Concat(tail, tail);
  const ExprId three = store->Concat(tail, two);
  return store->Or({{store->Concat(range(0xC2, 0xDF), tail),
                     store->Concat({range(0xE0, 0xE0), range(0xA0, 0xBF), tail}),
                     store->Concat(store->Or(range(0xE1, 0xEC), range(0xEE, 0xEF)), two),
                     store->Concat({range(0xED, 0xED), range(0x80, 0x9F), tail}),
                     store->Concat({range(0xF0, 0xF0), range(0x90, 0xBF), two}),
                     store->Concat(range(0xF1, 0xF3), three),
                     store->Concat({range(0xF4, 0xF4), range(0x80, 0x8F), two})}});
}

ExprId Unescaped(ExprStore* store) {
  const ByteSet ascii = ByteSet::Range(0x20, 0x7F) - ByteSet{'"', '\\'};
  return store->Or(store->Bytes(ascii), BeyondAscii(store));
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

ExprId CanonicalCharacter(ExprStore* store) {
  const ExprId letter = store->Bytes(ByteSet{'"', '\\', 'b', 'f', 'n', 'r', 't'});
  // Control characters without a letter of their own: not 8, 9, 10, 12 and 13.
  const ExprId zero_line =
      store->Or(Hex(store, "0", "7"), store->Or(Hex(store, "B", "B"), Hex(store, "E", "F")));
  const ExprId hex = store->Or(Hex(store, "0", "9"), Hex(store, "A", "F"));
  const ExprId control = store->Concat(
      store->Literal("u00"),
      store->Or(store->Concat(store->Byte('0'), zero_line), store->Concat(store->Byte('1'), hex)));
  return store->Or(Unescaped(store), store->Concat(store->Byte('\\'), store->Or(letter, control)));
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
  const ExprId character = CanonicalCharacter(store);
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
