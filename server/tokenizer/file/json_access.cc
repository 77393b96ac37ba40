#include "server/tokenizer/file/json_access.h"

#include "kernels/base/status_macros.h"
#include "server/tokenizer/file/errors.h"

namespace quire {
namespace {

absl::Status Wrong(std::string_view where, const char* key, std::string_view expected) {
  return InvalidArgument(where, ": \"", key, "\" must be ", expected);
}

}  // namespace

const nlohmann::json& Member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json null;
  if (!object.is_object()) return null;
  const auto it = object.find(key);
  return it == object.end() ? null : *it;
}

absl::StatusOr<std::string> GetString(const nlohmann::json& object, const char* key,
                                      std::string_view where) {
  const nlohmann::json& member = Member(object, key);
  if (!member.is_string()) return Wrong(where, key, "a string");
  return *member.get_ptr<const std::string*>();
}

absl::StatusOr<bool> GetBool(const nlohmann::json& object, const char* key, bool fallback,
                             std::string_view where) {
  const nlohmann::json& member = Member(object, key);
  if (member.is_null()) return fallback;
  if (!member.is_boolean()) return Wrong(where, key, "true or false");
  return *member.get_ptr<const bool*>();
}

absl::StatusOr<int64_t> GetCount(const nlohmann::json& object, const char* key, int64_t max,
                                 std::string_view where) {
  const nlohmann::json& member = Member(object, key);
  if (!member.is_number_unsigned() ||
      *member.get_ptr<const uint64_t*>() > static_cast<uint64_t>(max)) {
    return Wrong(where, key, Concat("an integer from 0 to ", max));
  }
  return static_cast<int64_t>(*member.get_ptr<const uint64_t*>());
}

absl::StatusOr<const nlohmann::json*> GetArray(const nlohmann::json& object, const char* key,
                                               std::string_view where) {
  const nlohmann::json& member = Member(object, key);
  if (!member.is_array()) return Wrong(where, key, "an array");
  return &member;
}

absl::StatusOr<PatternSpec> GetPattern(const nlohmann::json& object, std::string_view where) {
  const nlohmann::json& pattern = Member(object, "pattern");
  const bool is_regex = pattern.is_object() && pattern.contains("Regex");
  ASSIGN_OR_RETURN(std::string text,
                   GetString(pattern, is_regex ? "Regex" : "String", Concat(where, ".pattern")));
  if (text.empty()) return Wrong(where, "pattern", "a pattern that is not empty");
  return PatternSpec{is_regex, std::move(text)};
}

}  // namespace quire
