#include "server/request/field_error.h"

#include <utility>

#include "absl/strings/cord.h"

namespace quire {

namespace {

constexpr char kFieldPayload[] = "quire/field";
constexpr char kCodePayload[] = "quire/error-code";

std::string PayloadOf(const absl::Status& status, absl::string_view name) {
  const absl::optional<absl::Cord> payload = status.GetPayload(name);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status InField(absl::string_view field, absl::Status status) {
  status.SetPayload(kFieldPayload, absl::Cord(field));
  return status;
}

absl::Status InvalidField(absl::string_view field, absl::string_view sentence) {
  return InField(field, absl::InvalidArgumentError(sentence));
}

absl::Status UnimplementedField(absl::string_view field, absl::string_view sentence) {
  return InField(field, absl::UnimplementedError(sentence));
}

std::string FieldOf(const absl::Status& status) { return PayloadOf(status, kFieldPayload); }

absl::Status WithErrorCode(absl::string_view code, absl::Status status) {
  status.SetPayload(kCodePayload, absl::Cord(code));
  return status;
}

std::string ErrorCodeOf(const absl::Status& status) { return PayloadOf(status, kCodePayload); }

}  // namespace quire
