// UnaryMethod: one message in, one out: parse, handle, serialize, finish.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/call/grpc_call.h"
#include "server/call/messages.h"
#include "server/request/generate/work_pool.h"

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

// `handle` is `absl::StatusOr<Response>(const Request&, const GrpcCall&)`, called on the
// connection's loop, or in `work_pool`, if there is one, for requests of more than
// `max_inline_bytes`.
template <typename Request, typename Handle>
GrpcMethod UnaryMethod(const google::protobuf::MethodDescriptor& method, Handle handle,
                       WorkPool* work_pool = nullptr, size_t max_inline_bytes = 0) {
  auto on_message = [handle = std::move(handle), work_pool, max_inline_bytes](
                        const GrpcCallRef& call, std::string message) {
    if (work_pool == nullptr || message.size() <= max_inline_bytes) {
      AnswerUnary<Request>(*call, message, handle);
      return;
    }
    const size_t num_bytes = message.size();
    auto bytes = std::make_shared<std::string>(std::move(message));
    work_pool->Add({num_bytes, call->token(), call->cost(),
                    [call, bytes, &handle](const absl::Status& status) {
                      if (status.ok()) {
                        AnswerUnary<Request>(*call, *bytes, handle);
                      } else {
                        call->Finish(status);
                      }
                    }});
  };
  return {PathOf(method), std::move(on_message)};
}

}  // namespace quire
