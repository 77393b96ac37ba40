// Errors that one field of a request is to blame for. The field is a payload of the status and not
// part of its sentence, so that each transport can put the two together as its clients expect: gRPC
// says "sampling.temperature: 101 is out of range". Pure functions; any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace quire {

// `status`, which is not OK, with the field that it is about. The field has the name that the
// request's surface uses (field_names.h): "sampling.temperature", "messages[3].role".
absl::Status InField(absl::string_view field, absl::Status status);

// INVALID_ARGUMENT for the value of `field`.
absl::Status InvalidField(absl::string_view field, absl::string_view sentence);

// UNIMPLEMENTED for a value of `field` that others serve.
absl::Status UnimplementedField(absl::string_view field, absl::string_view sentence);

// The path of the field; empty if `status` blames none.
std::string FieldOf(const absl::Status& status);

// Names of errors, by which OpenAI's clients tell them apart.
inline constexpr char kContextLengthExceeded[] = "context_length_exceeded";
inline constexpr char kModelNotFound[] = "model_not_found";

absl::Status WithErrorCode(absl::string_view code, absl::Status status);

// Empty if the error has no name.
std::string ErrorCodeOf(const absl::Status& status);

}  // namespace quire
