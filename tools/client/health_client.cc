#include "tools/client/health_client.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "tools/client/rpc.h"

namespace quire::client {

HealthResult CheckHealth(grpc::Channel& channel, const std::string& service, double timeout_seconds,
                         bool wait_for_ready) {
  // The channel outlives the call, so the stub may borrow it.
  const auto stub = grpc::health::v1::Health::NewStub(
      std::shared_ptr<grpc::Channel>(std::shared_ptr<void>(), &channel));
  grpc::ClientContext context;
  SetTimeout(timeout_seconds, &context);
  context.set_wait_for_ready(wait_for_ready);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  if (!status.ok()) return {false, "", status};
  return {response.status() == grpc::health::v1::HealthCheckResponse::SERVING,
          grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status()), status};
}

}  // namespace quire::client
