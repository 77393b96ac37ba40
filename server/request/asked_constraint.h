// What an answer must be, as surfaces read it from fields of their requests: the constraints that
// are more than a text. `field` is the client's name for the field. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/grammar/constraint/constraint_spec.h"

namespace quire {

// A JSON schema that the client wrote as a text. INVALID_ARGUMENT if it is no JSON.
absl::StatusOr<ConstraintSpec> ConstraintOfSchemaText(std::string field, std::string_view json);

// JSON objects with any members.
ConstraintSpec ConstraintOfObjects(std::string field);

// INVALID_ARGUMENT if there is no choice.
absl::StatusOr<ConstraintSpec> ConstraintOfChoices(std::string field,
                                                   std::vector<std::string> choices);

}  // namespace quire
