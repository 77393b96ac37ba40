#include "server/request/field_error.h"

#include <utility>

#include "absl/strings/cord.h"

namespace quire {

namespace {

constexpr char kPayload[] = "quire/field";

}  // namespace

absl::Status InField(absl::string_view field, absl::Status status) {
  status.SetPayload(kPayload, absl::Cord(field));
  return status;
}

absl::Status InvalidField(absl::string_view field, absl::string_view sentence) {
  return InField(field, absl::InvalidArgumentError(sentence));
}

std::string FieldOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace quire
