#include "server/request/asked_constraint.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/request/field_error.h"

namespace quire {

absl::StatusOr<ConstraintSpec> ConstraintOfSchemaText(std::string field, std::string_view json) {
  size_t num_values_left = kMaxJsonValues;
  absl::StatusOr<JsonTree> schema = ParseJsonTree(json, &num_values_left);
  if (!schema.ok()) {
    return InvalidField(field, absl::StrCat("is not JSON: ", schema.status().message()));
  }
  return ConstraintSpec{.schema = *std::move(schema), .field = std::move(field)};
}

ConstraintSpec ConstraintOfObjects(std::string field) {
  JsonTree schema = NewObject();
  AddMember(&schema, "type", TextTree("object"));
  return {.schema = std::move(schema), .field = std::move(field)};
}

absl::StatusOr<ConstraintSpec> ConstraintOfChoices(std::string field,
                                                   std::vector<std::string> choices) {
  if (choices.empty()) return InvalidField(field, "has no choice; send at least one");
  return ConstraintSpec{.kind = ConstraintSpec::Kind::kChoice,
                        .choices = std::move(choices),
                        .field = std::move(field)};
}

}  // namespace quire
