#include "server/text/chat/jinja/values/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "absl/strings/str_format.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/python_text.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

void AppendRepr(const Value& value, std::string* out);

void AppendEscaped(const Character& character, std::string_view raw, char quote, std::string* out) {
  switch (character.code) {
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    case '\\':
      out->append("\\\\");
      return;
    default:
      break;
  }
  if (character.code == quote) {
    out->append(Concat("\\", raw));
  } else if (IsPrintable(character.code)) {
    out->append(raw);
  } else if (character.code < 0x100) {
    absl::StrAppendFormat(out, "\\x%02x", static_cast<unsigned char>(character.code));
  } else if (character.code < 0x10000) {
    absl::StrAppendFormat(out, "\\u%04x", character.code);
  } else {
    absl::StrAppendFormat(out, "\\U%08x", character.code);
  }
}

void AppendTextRepr(std::string_view text, std::string* out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out->push_back(quote);
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    AppendEscaped(character, text.substr(at, character.size), quote, out);
    at += character.size;
  }
  out->push_back(quote);
}

void AppendItems(const std::vector<Value>& items, std::string* out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out->append(", ");
    AppendRepr(items[i], out);
  }
}

void AppendListRepr(const Value& value, std::string* out) {
  const List& list = *value.list();
  switch (list.kind) {
    case ListKind::kList:
      out->push_back('[');
      AppendItems(list.items, out);
      out->push_back(']');
      return;
    case ListKind::kTuple:
      out->push_back('(');
      AppendItems(list.items, out);
      out->append(list.items.size() == 1 ? ",)" : ")");
      return;
    case ListKind::kGenerator:
      out->append("<generator>");
      return;
    default:
      out->append(Concat(value.type_name(), "(["));
      AppendItems(list.items, out);
      out->append("])");
  }
}

void AppendRepr(const Value& value, std::string* out) {
  if (value.text() != nullptr) {
    AppendTextRepr(value.text()->bytes(), out);
  } else if (value.list() != nullptr) {
    AppendListRepr(value, out);
  } else if (value.dict() != nullptr) {
    out->push_back('{');
    const auto& entries = value.dict()->entries();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out->append(", ");
      AppendRepr(entries[i].first, out);
      out->append(": ");
      AppendRepr(entries[i].second, out);
    }
    out->push_back('}');
  } else if (value.is_undefined()) {
    out->append("Undefined");
  } else if (value.is_none()) {
    out->append("None");
  } else if (value.is_bool()) {
    out->append(value.boolean() ? "True" : "False");
  } else if (value.is_integer()) {
    out->append(IntegerToString(value.integer()));
  } else if (value.is_float()) {
    out->append(FloatToString(value.number()));
  } else {
    out->append(Concat("<", value.type_name(), ">"));
  }
}

}  // namespace

std::string IntegerToString(Integer value) {
  if (value == 0) return "0";
  std::string digits;
  const bool negative = value < 0;
  for (; value != 0; value /= 10) {
    const int digit = static_cast<int>(value % 10);
    digits.push_back(static_cast<char>('0' + (negative ? -digit : digit)));
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string FloatToString(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto scientific =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view written(buffer, static_cast<size_t>(scientific.ptr - buffer));
  const size_t e = written.find('e');
  int exponent = 0;
  const char* exponent_begin = written.data() + e + (written[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_begin, scientific.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(written);
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string result(buffer, fixed.ptr);
  if (result.find('.') == std::string::npos) result.append(".0");
  return result;
}

absl::StatusOr<std::string> Repr(Runtime& runtime, const Value& value) {
  RETURN_IF_ERROR(runtime.ChargeForWriting(value));
  std::string out;
  AppendRepr(value, &out);
  return out;
}

absl::StatusOr<Text> ToText(Runtime& runtime, const Value& value) {
  if (value.text() != nullptr) return *value.text();
  if (value.is_undefined()) return Text();
  ASSIGN_OR_RETURN(const std::string repr, Repr(runtime, value));
  return Text(repr, Origin::kUser);
}

}  // namespace quire::jinja
