#include "server/surfaces/grpc/generate_methods.h"

#include <memory>
#include <utility>

#include "server/call/messages.h"
#include "server/request/output/access_tokens.h"
#include "server/request/output/logprob_message.h"
#include "server/request/output/response_collector.h"
#include "server/surfaces/grpc/generate_method.h"

namespace quire {

namespace {

const google::protobuf::MethodDescriptor& Method(const char* name) {
  return *v1::GenerateRequest::descriptor()
              ->file()
              ->FindServiceByName("Inference")
              ->FindMethodByName(name);
}

// Every response is a message of the stream. Deletes itself with its last one.
class StreamSink final : public ResponseSink {
 public:
  StreamSink(GrpcCallRef call, const v1::GenerateRequest& request) : call_(std::move(call)) {
    access_.model = request.model();
  }

  void SetReadyCallback(std::function<void()> on_ready) override {
    on_ready_ = std::move(on_ready);
  }
  void Send(v1::GenerateResponse response) override {
    NoteResponse(response, &access_);
    AddTokenTexts(&response);
    call_->Send(response.SerializeAsString(), on_ready_);
  }
  void SendLast(v1::GenerateResponse response) override {
    NoteResponse(response, &access_);
    AddTokenTexts(&response);
    call_->Send(response.SerializeAsString(), nullptr);
    End(absl::OkStatus());
  }
  void End(const absl::Status& status) override {
    call_->SetAccess(std::move(access_));
    call_->Finish(status);
    delete this;
  }

 private:
  const GrpcCallRef call_;
  std::function<void()> on_ready_;
  AccessEntry access_;
};

// All responses are one message. Deletes itself with it.
class OnceSink final : public ResponseSink {
 public:
  OnceSink(GrpcCallRef call, const v1::GenerateRequest& request) : call_(std::move(call)) {
    access_.model = request.model();
  }

  void SetReadyCallback(std::function<void()> on_ready) override {
    on_ready_ = std::move(on_ready);
  }
  bool KeepsAnswer() const override { return true; }
  void Send(v1::GenerateResponse response) override {
    NoteResponse(response, &access_);
    collector_.Add(std::move(response));
    on_ready_();
  }
  void SendLast(v1::GenerateResponse response) override {
    NoteResponse(response, &access_);
    collector_.Add(std::move(response));
    End(absl::OkStatus());
  }
  void End(const absl::Status& status) override {
    call_->SetAccess(std::move(access_));
    if (status.ok()) {
      v1::GenerateOnceResponse answer = collector_.Take();
      AddTokenTexts(&answer);
      call_->FinishWith(answer.SerializeAsString());
    } else {
      call_->Finish(status);
    }
    delete this;
  }

 private:
  const GrpcCallRef call_;
  std::function<void()> on_ready_;
  ResponseCollector collector_;
  AccessEntry access_;
};

template <typename Sink>
GrpcMethod MethodOf(const char* name, GenerateHandler* handler) {
  return MakeGenerateMethod<Sink, v1::GenerateRequest>(
      PathOf(Method(name)), handler,
      [](v1::GenerateRequest request) -> absl::StatusOr<v1::GenerateRequest> { return request; });
}

}  // namespace

GrpcMethod GenerateMethod(const ServingContext& serving) {
  return MethodOf<StreamSink>("Generate", serving.generate);
}

GrpcMethod GenerateOnceMethod(const ServingContext& serving) {
  return MethodOf<OnceSink>("GenerateOnce", serving.generate);
}

}  // namespace quire
