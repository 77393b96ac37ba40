// The parts that components of tokenizer.json have in common: lists of components, and patterns.
// Errors are INVALID_ARGUMENT and name what is wrong. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/json/json_members.h"
#include "nlohmann/json.hpp"

namespace quire {

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
