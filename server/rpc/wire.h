// Between gRPC's types and ours: messages from and to byte buffers, absl statuses to gRPC ones. The
// services receive raw bytes, because gRPC would answer a message that does not parse with a bare
// UNIMPLEMENTED. Pure; any thread.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quire {

// INVALID_ARGUMENT when the bytes are not such a message, or a string in it is not UTF-8.
absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);

template <typename Message>
absl::StatusOr<Message> Parse(const grpc::ByteBuffer& bytes) {
  Message message;
  absl::Status status = ParseMessage(bytes, &message);
  if (!status.ok()) return status;
  return message;
}

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// The same code and sentence, after the field to blame if there is one ("sampling.top_p: ..."); cut
// to fit into a header.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace quire
