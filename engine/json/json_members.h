// JsonReader's look-ups one by one, for callers that need each value before they can go on. Pure
// functions; any thread. Errors are INVALID_ARGUMENT and name `where`, the object, and the key.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace quire {

// The member, or null if `object` is no object or lacks the member.
const nlohmann::json& Member(const nlohmann::json& object, const char* key);

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

}  // namespace quire
