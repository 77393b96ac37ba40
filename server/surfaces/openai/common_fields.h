// The fields that completions, chats and responses have in common, with vLLM's further ones. Pure
// functions; any thread. Errors become the reader's status.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/request/generation.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

// The body of a request, which must be an object.
absl::StatusOr<JsonTree> ParseBody(std::string_view body);

// Refuses fields that no surface supports, for any prompt.
void RefuseAbsent(FieldReader& fields);

// Everything except the prompt, the number of tokens, and the form of the answer. A request that
// brings no id gets one with this beginning.
Generation FillCommon(FieldReader& fields, absl::string_view id_prefix, absl::string_view asked_id);

// A value out of range stays out of range.
template <typename Int>
Int Clamp(int64_t value) {
  return static_cast<Int>(
      std::clamp<int64_t>(value, std::numeric_limits<Int>::min(), std::numeric_limits<Int>::max()));
}

}  // namespace quire
