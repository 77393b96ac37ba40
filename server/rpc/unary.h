// ServeUnary: one raw unary call: parse, handle, serialize, finish. Any gRPC thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "server/generate/work_pool.h"
#include "server/rpc/wire.h"

namespace quire {

// `handle` is `absl::StatusOr<Response>(const Request&)`. Requests of more than `max_inline_bytes`
// are handled by `work_pool`, if there is one.
template <typename Request, typename Handle>
grpc::ServerUnaryReactor* ServeUnary(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer& bytes, grpc::ByteBuffer* answer,
                                     Handle handle, WorkPool* work_pool = nullptr,
                                     size_t max_inline_bytes = 0) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  auto request = std::make_shared<absl::StatusOr<Request>>(Parse<Request>(bytes));
  auto finish = [reactor, request, answer, handle = std::move(handle)] {
    absl::Status status = request->status();
    if (status.ok()) {
      const auto response = handle(**request);
      status = response.status();
      if (status.ok()) *answer = Serialize(*response);
    }
    reactor->Finish(ToGrpcStatus(status));
  };
  if (work_pool == nullptr || bytes.Length() <= max_inline_bytes) {
    finish();
  } else if (!work_pool->Add(std::move(finish))) {
    reactor->Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                 "too many long texts wait to be tokenized; try again later"));
  }
  return reactor;
}

}  // namespace quire
