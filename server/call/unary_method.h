// UnaryMethod: one message in, one out: parse, handle, serialize, finish.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/call/grpc_call.h"
#include "server/call/messages.h"
#include "server/call/read_request.h"

namespace quire {

// Parses and answers one call; any thread. `handle` is `absl::StatusOr<Response>(const Request&)`.
template <typename Request, typename Handle>
void AnswerUnary(GrpcCall& call, const std::string& bytes, const Handle& handle) {
  const absl::StatusOr<Request> request = Parse<Request>(bytes);
  if (!request.ok()) {
    call.Finish(request.status());
    return;
  }
  const auto response = handle(*request, call);
  if (response.ok()) {
    call.FinishWith(response->SerializeAsString());
  } else {
    call.Finish(response.status());
  }
}

// `handle` is `absl::StatusOr<Response>(const Request&, const GrpcCall&)`. It is called on the
// connection's loop, or, if its time grows with the request, as ReadRequest does it with `pool`.
template <typename Request, typename Handle>
GrpcMethod UnaryMethod(const google::protobuf::MethodDescriptor& method, Handle handle,
                       WorkPool* pool = nullptr) {
  auto on_message = [handle = std::move(handle), pool](const GrpcCallRef& call,
                                                       std::string message) {
    if (pool == nullptr) {
      AnswerUnary<Request>(*call, message, handle);
      return;
    }
    ReadRequest(pool, call, std::move(message), [call, &handle](const std::string& bytes) {
      AnswerUnary<Request>(*call, bytes, handle);
    });
  };
  return {PathOf(method), std::move(on_message)};
}

}  // namespace quire
