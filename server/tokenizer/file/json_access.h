// Checked access to the members of a JSON object of tokenizer.json: a missing member or one of
// another type is an INVALID_ARGUMENT that names it. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace quire {

// The member, or null where `object` is no object or lacks it.
const nlohmann::json& Member(const nlohmann::json& object, const char* key);

// `where` names the object in errors, for example "normalizer".
absl::StatusOr<std::string> GetString(const nlohmann::json& object, const char* key,
                                      std::string_view where);

// The member as a bool, or `fallback` when it is missing or null.
absl::StatusOr<bool> GetBool(const nlohmann::json& object, const char* key, bool fallback,
                             std::string_view where);

// A non-negative integer that is at most `max`.
absl::StatusOr<int64_t> GetCount(const nlohmann::json& object, const char* key, int64_t max,
                                 std::string_view where);

// The member, which must be an array.
absl::StatusOr<const nlohmann::json*> GetArray(const nlohmann::json& object, const char* key,
                                               std::string_view where);

// {"String": text} or {"Regex": text}, the two forms of a pattern.
struct PatternSpec {
  bool is_regex;
  std::string text;  // not empty
};
absl::StatusOr<PatternSpec> GetPattern(const nlohmann::json& object, std::string_view where);

// Calls `visit(component)` for `json`, or in order for the components inside it when it is a
// "Sequence", at any depth (the reader bounds it); `list_key` holds a Sequence's components. null
// has no component.
template <typename Visit>
absl::Status VisitComponents(const nlohmann::json& json, const char* list_key,
                             std::string_view where, const Visit& visit) {
  if (json.is_null()) return absl::OkStatus();
  absl::StatusOr<std::string> type = GetString(json, "type", where);
  if (!type.ok()) return type.status();
  if (*type != "Sequence") return visit(*type, json);
  absl::StatusOr<const nlohmann::json*> list = GetArray(json, list_key, where);
  if (!list.ok()) return list.status();
  for (const nlohmann::json& item : **list) {
    if (absl::Status status = VisitComponents(item, list_key, where, visit); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

}  // namespace quire
