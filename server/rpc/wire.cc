#include "server/rpc/wire.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/request/field_error.h"

namespace quire {

absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  grpc::ByteBuffer readable(bytes);  // shares the slices
  grpc::ProtoBufferReader reader(&readable);
  if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the bytes are not a valid ", message->GetTypeName(),
                   " message; check that every string in it is UTF-8"));
}

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  grpc_slice slice = grpc_slice_malloc(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(GRPC_SLICE_START_PTR(slice));
  const grpc::Slice owned(slice, grpc::Slice::STEAL_REF);
  return grpc::ByteBuffer(&owned, 1);
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  constexpr size_t kMaxMessageBytes = 2048;
  if (status.ok()) return grpc::Status::OK;
  const std::string field = FieldOf(status);
  std::string sentence = absl::StrCat(field, field.empty() ? "" : ": ", status.message());
  sentence.resize(std::min(sentence.size(), kMaxMessageBytes));
  // Both enums are google.rpc.Code.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), sentence);
}

}  // namespace quire
