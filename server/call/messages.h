// Messages from and to bytes. Pure; any thread.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace quire {

// INVALID_ARGUMENT when the bytes are not such a message, or a string in it is not UTF-8.
template <typename Message>
absl::StatusOr<Message> Parse(const std::string& bytes) {
  Message message;
  if (message.ParseFromString(bytes)) return message;
  return absl::InvalidArgumentError(
      absl::StrCat("the bytes are not a valid ", message.GetTypeName(),
                   " message; check that every string in it is UTF-8"));
}

// How clients call a method: "/package.Service/Method".
inline std::string PathOf(const google::protobuf::MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

}  // namespace quire
