#include "tools/client/health_client.h"

#include <chrono>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tools/client/rpc.h"

namespace quire::client {

HealthResult CheckHealth(grpc::Channel& channel, const std::string& service, double timeout_seconds,
                         bool wait_for_ready) {
  // The channel outlives the call, so the stub may borrow it.
  const auto stub = grpc::health::v1::Health::NewStub(
      std::shared_ptr<grpc::Channel>(std::shared_ptr<void>(), &channel));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000)));
  context.set_wait_for_ready(wait_for_ready);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  if (!status.ok()) {
    return {false, std::string(StatusName(status.error_code())) + ": " + status.error_message()};
  }
  if (response.status() != grpc::health::v1::HealthCheckResponse::SERVING) {
    return {false, "it answers " + grpc::health::v1::HealthCheckResponse::ServingStatus_Name(
                                       response.status())};
  }
  return {true, ""};
}

}  // namespace quire::client
