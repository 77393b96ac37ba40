#include "tools/client/inference_client.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "quire/v1/inference.grpc.pb.h"
#include "tools/client/grpc_channel.h"

namespace quire::client {

struct CancellableCall::Context : grpc::ClientContext {};

struct InferenceClient::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : inference(channel), admin(channel), health(channel) {}

  v1::Inference::Stub inference;
  v1::Admin::Stub admin;
  grpc::health::v1::Health::Stub health;
};

namespace {

// By the monotonic clock, so that setting the wall clock ends no call early.
void SetTimeout(double seconds, grpc::ClientContext& context) {
  if (seconds <= 0) return;
  const auto span = gpr_time_from_millis(static_cast<int64_t>(seconds * 1000), GPR_TIMESPAN);
  context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), span));
}

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

// One message there and one back.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallOnce(Stub& stub,
                                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                                  const Request& request, double timeout_seconds = 0) {
  grpc::ClientContext context;
  SetTimeout(timeout_seconds, context);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return ToAbsl(status);
  return response;
}

}  // namespace

CancellableCall::CancellableCall(double timeout_seconds) : context_(std::make_unique<Context>()) {
  SetTimeout(timeout_seconds, *context_);
}

CancellableCall::~CancellableCall() = default;

void CancellableCall::Cancel() { context_->TryCancel(); }

InferenceClient::InferenceClient(const std::string& target)
    : stubs_(std::make_unique<Stubs>(OpenChannel(target))) {}

InferenceClient::~InferenceClient() = default;

absl::Status InferenceClient::Generate(
    const v1::GenerateRequest& request, CancellableCall& call,
    absl::FunctionRef<void(const v1::GenerateResponse&)> on_response) {
  const auto reader = stubs_->inference.Generate(call.context_.get(), request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) on_response(response);
  return ToAbsl(reader->Finish());
}

absl::StatusOr<v1::GetModelResponse> InferenceClient::GetModel(double timeout_seconds) {
  return CallOnce(stubs_->inference, &v1::Inference::Stub::GetModel, v1::GetModelRequest(),
                  timeout_seconds);
}

absl::StatusOr<v1::TokenizeResponse> InferenceClient::Tokenize(const v1::TokenizeRequest& request) {
  return CallOnce(stubs_->inference, &v1::Inference::Stub::Tokenize, request);
}

absl::StatusOr<v1::DetokenizeResponse> InferenceClient::Detokenize(
    const v1::DetokenizeRequest& request) {
  return CallOnce(stubs_->inference, &v1::Inference::Stub::Detokenize, request);
}

absl::StatusOr<v1::GetStatusResponse> InferenceClient::GetStatus() {
  return CallOnce(stubs_->admin, &v1::Admin::Stub::GetStatus, v1::GetStatusRequest());
}

absl::StatusOr<v1::AbortResponse> InferenceClient::Abort(const v1::AbortRequest& request) {
  return CallOnce(stubs_->admin, &v1::Admin::Stub::Abort, request);
}

absl::StatusOr<v1::FlushPrefixCacheResponse> InferenceClient::FlushPrefixCache() {
  return CallOnce(stubs_->admin, &v1::Admin::Stub::FlushPrefixCache, v1::FlushPrefixCacheRequest());
}

absl::StatusOr<Health> InferenceClient::CheckHealth(const std::string& service,
                                                    double timeout_seconds, bool wait_for_ready) {
  using grpc::health::v1::HealthCheckResponse;
  grpc::ClientContext context;
  SetTimeout(timeout_seconds, context);
  context.set_wait_for_ready(wait_for_ready);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  const grpc::Status status = stubs_->health.Check(&context, request, &response);
  if (!status.ok()) return ToAbsl(status);
  return Health{response.status() == HealthCheckResponse::SERVING,
                HealthCheckResponse::ServingStatus_Name(response.status())};
}

}  // namespace quire::client
