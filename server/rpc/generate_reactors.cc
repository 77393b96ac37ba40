#include "server/rpc/generate_reactors.h"

#include <grpcpp/server_context.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/output/response_collector.h"
#include "server/request/retry_pushback.h"
#include "server/rpc/wire.h"

namespace quire {

namespace {

// Adds to a refused call when to come back; stock gRPC clients honour it.
void AddPushback(const absl::Status& status, grpc::CallbackServerContext* context) {
  if (const std::optional<int64_t> delay_ms = RetryPushbackMs(status); delay_ms.has_value()) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(*delay_ms));
  }
}

// Parses and starts a request whose sink is `sink`; ends the sink if it cannot be parsed.
void StartRequest(GenerateHandler& handler, const grpc::ByteBuffer& request,
                  std::shared_ptr<CancelToken> token, ResponseSink* sink) {
  absl::StatusOr<v1::GenerateRequest> message = Parse<v1::GenerateRequest>(request);
  if (!message.ok()) {
    sink->End(message.status());
    return;
  }
  handler.Start(*std::move(message), std::move(token), sink);
}

class GenerateReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                              public ResponseSink {
 public:
  GenerateReactor(const ServingContext& serving, grpc::CallbackServerContext* context)
      : live_call_(serving.live_calls), context_(context) {}

  void Start(GenerateHandler& handler, const grpc::ByteBuffer& request) {
    StartRequest(handler, request, token_, this);
  }

  void SetReadyCallback(std::function<void()> on_ready) override {
    on_ready_ = std::move(on_ready);
  }
  void Send(v1::GenerateResponse response) override {
    under_way_ = Serialize(response);
    StartWrite(&under_way_);
  }
  void SendLast(v1::GenerateResponse response) override {
    under_way_ = Serialize(response);
    StartWriteAndFinish(&under_way_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void End(const absl::Status& status) override {
    AddPushback(status, context_);
    Finish(ToGrpcStatus(status));
  }

  void OnWriteDone(bool /*ok*/) override { on_ready_(); }  // a failed write: the call is cancelled
  void OnCancel() override { token_->Cancel(); }           // client gone, or past its deadline
  void OnDone() override { delete this; }

 private:
  const LiveCalls::Call live_call_;
  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<CancelToken> token_ = std::make_shared<CancelToken>();
  std::function<void()> on_ready_;
  grpc::ByteBuffer under_way_;  // unchanged until its write is done
};

class GenerateOnceReactor final : public grpc::ServerUnaryReactor, public ResponseSink {
 public:
  GenerateOnceReactor(const ServingContext& serving, grpc::CallbackServerContext* context,
                      grpc::ByteBuffer* answer)
      : live_call_(serving.live_calls), context_(context), answer_(answer) {}

  void Start(GenerateHandler& handler, const grpc::ByteBuffer& request) {
    StartRequest(handler, request, token_, this);
  }

  void SetReadyCallback(std::function<void()> on_ready) override {
    on_ready_ = std::move(on_ready);
  }
  void Send(v1::GenerateResponse response) override {
    collector_.Add(std::move(response));
    on_ready_();
  }
  void SendLast(v1::GenerateResponse response) override {
    collector_.Add(std::move(response));
    End(absl::OkStatus());
  }
  void End(const absl::Status& status) override {
    if (status.ok()) *answer_ = Serialize(collector_.Take());
    AddPushback(status, context_);
    Finish(ToGrpcStatus(status));
  }

  void OnCancel() override { token_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const LiveCalls::Call live_call_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const answer_;
  const std::shared_ptr<CancelToken> token_ = std::make_shared<CancelToken>();
  std::function<void()> on_ready_;
  ResponseCollector collector_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGenerate(const ServingContext& serving,
                                                          grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer& request) {
  auto* reactor = new GenerateReactor(serving, context);
  reactor->Start(*serving.generate, request);
  return reactor;
}

grpc::ServerUnaryReactor* StartGenerateOnce(const ServingContext& serving,
                                            grpc::CallbackServerContext* context,
                                            const grpc::ByteBuffer& request,
                                            grpc::ByteBuffer* answer) {
  auto* reactor = new GenerateOnceReactor(serving, context, answer);
  reactor->Start(*serving.generate, request);
  return reactor;
}

}  // namespace quire
