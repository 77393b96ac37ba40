#include "server/surfaces/grpc/generate_methods.h"

#include <memory>
#include <utility>

#include "server/call/messages.h"
#include "server/surfaces/grpc/answer_messages.h"
#include "server/surfaces/grpc/generate_method.h"
#include "server/surfaces/grpc/request_messages.h"

namespace quire {

namespace {

const google::protobuf::MethodDescriptor& Method(const char* name) {
  return *v1::GenerateRequest::descriptor()
              ->file()
              ->FindServiceByName("Inference")
              ->FindMethodByName(name);
}

// Every part is a message of the stream.
class StreamWriter final : public AnswerWriter {
 public:
  StreamWriter(GrpcCallRef call, const v1::GenerateRequest&) : call_(std::move(call)) {}

  void Write(AnswerPart part, const std::function<void()>& on_ready) override {
    call_->Send(ToMessage(std::move(part)).SerializeAsString(), on_ready);
  }
  void End(const absl::Status& status, AccessEntry access) override {
    call_->SetAccess(std::move(access));
    call_->Finish(status);
  }

 private:
  const GrpcCallRef call_;
};

// All parts are one message.
class OnceWriter final : public AnswerWriter {
 public:
  OnceWriter(GrpcCallRef call, const v1::GenerateRequest&) : call_(std::move(call)) {}

  bool KeepsAnswer() const override { return true; }
  void Write(AnswerPart part, const std::function<void()>& on_ready) override {
    collector_.Add(std::move(part));
    on_ready();
  }
  void End(const absl::Status& status, AccessEntry access) override {
    call_->SetAccess(std::move(access));
    if (status.ok()) {
      call_->FinishWith(collector_.Take().SerializeAsString());
    } else {
      call_->Finish(status);
    }
  }

 private:
  const GrpcCallRef call_;
  AnswerCollector collector_;
};

template <typename Writer>
GrpcMethod MethodOf(const char* name, const ServingContext& serving) {
  return MakeGenerateMethod<Writer, v1::GenerateRequest>(PathOf(Method(name)), serving,
                                                         ToGeneration);
}

}  // namespace

GrpcMethod GenerateMethod(const ServingContext& serving) {
  return MethodOf<StreamWriter>("Generate", serving);
}

GrpcMethod GenerateOnceMethod(const ServingContext& serving) {
  return MethodOf<OnceWriter>("GenerateOnce", serving);
}

}  // namespace quire
