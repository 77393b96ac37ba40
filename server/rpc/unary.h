// ServeUnary: one raw unary call: parse, handle, serialize, finish. Any gRPC thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "server/generate/work_pool.h"
#include "server/request/cancel_token.h"
#include "server/rpc/wire.h"

namespace quire {

// Its token is cancelled when the client is gone or past its deadline.
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  const std::shared_ptr<CancelToken>& token() const { return token_; }
  void OnCancel() override { token_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<CancelToken> token_ = std::make_shared<CancelToken>();
};

// `handle` is `absl::StatusOr<Response>(const Request&)`, with `const CancelToken*` behind it if it
// can be cancelled. Requests of more than `max_inline_bytes` are handled by `work_pool`, if there
// is one.
template <typename Request, typename Handle>
grpc::ServerUnaryReactor* ServeUnary(grpc::CallbackServerContext* /*context*/,
                                     const grpc::ByteBuffer& bytes, grpc::ByteBuffer* answer,
                                     Handle handle, WorkPool* work_pool = nullptr,
                                     size_t max_inline_bytes = 0) {
  auto* reactor = new UnaryReactor;
  auto request = std::make_shared<absl::StatusOr<Request>>(Parse<Request>(bytes));
  auto finish = [reactor, request, answer, handle = std::move(handle)](absl::Status status) {
    status.Update(request->status());
    if (status.ok()) {
      const auto response = [&] {
        if constexpr (std::is_invocable_v<Handle, const Request&, const CancelToken*>) {
          return handle(**request, reactor->token().get());
        } else {
          return handle(**request);
        }
      }();
      status = response.status();
      if (status.ok()) *answer = Serialize(*response);
    }
    reactor->Finish(ToGrpcStatus(status));
  };
  if (work_pool == nullptr || bytes.Length() <= max_inline_bytes) {
    finish(absl::OkStatus());
  } else {
    const size_t num_bytes = request->ok() ? (*request)->SpaceUsedLong() : 0;
    work_pool->Add({num_bytes, reactor->token(), std::move(finish)});
  }
  return reactor;
}

}  // namespace quire
