#include "server/text/answer/parameter_value.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/json/parse_json.h"
#include "server/text/answer/call_reader.h"
#include "server/text/answer/json_mender.h"

namespace quire {

namespace {

std::string_view WithoutSpaces(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}

// The type of a JSON value, by how it begins.
JsonTypes TypeOf(std::string_view json) {
  switch (json.front()) {
    case '"':
      return kJsonText;
    case '{':
      return kJsonObject;
    case '[':
      return kJsonList;
    case 't':
    case 'f':
      return kJsonBool;
    case 'n':
      return kJsonNull;
    default:
      break;
  }
  const bool is_integer = json.find_first_of(".eE") == std::string_view::npos;
  return is_integer ? JsonTypes{kJsonInteger | kJsonNumber} : kJsonNumber;
}

// 3.0 is an integer, too.
bool IsWhole(std::string_view number) {
  const size_t point = number.find('.');
  return point != std::string_view::npos &&
         number.find_first_not_of('0', point + 1) == std::string_view::npos;
}

bool Fits(std::string_view json, JsonTypes types) {
  const JsonTypes type = TypeOf(json);
  if (type == kJsonNumber && (types & kJsonInteger) != 0) return IsWhole(json);
  return (type & types) != 0;
}

// The text as JSON, in whatever spelling; nothing where it is a text without quotes.
std::optional<std::string> AsJson(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text.front() == '{' || text.front() == '[') {
    std::string mended;
    if (MendJson(text, &mended)) return mended;
    return std::nullopt;
  }
  if (IsJson(text)) return std::string(text);
  std::string word = WordToJson(text);
  if (word.starts_with('"')) return std::nullopt;
  return word;
}

// The text of a JSON string.
std::optional<std::string> Unquoted(const std::string& json) {
  if (!json.starts_with('"')) return std::nullopt;
  const nlohmann::json value = ParseJson(json);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

}  // namespace

std::string ParameterToJson(std::string_view text, JsonTypes types) {
  const std::optional<std::string> json = AsJson(WithoutSpaces(text));
  if (json.has_value()) {
    if (Fits(*json, types)) return *json;
    // Some write the JSON of an object as a text in quotes.
    const std::optional<std::string> inner = AsJson(Unquoted(*json).value_or(""));
    if (inner.has_value() && Fits(*inner, types)) return *inner;
    // A wrong type, but where there may be no text this is what the model means.
    if ((types & kJsonText) == 0) return *json;
  }
  if (text.ends_with('\n')) text.remove_suffix(1);
  return absl::StrCat("\"", EscapedForJson(text), "\"");
}

}  // namespace quire
