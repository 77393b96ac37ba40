// GrpcServer: gRPC with our services, health and reflection, without a port of its own: connections
// come from the Acceptor. Limits are set for clients that nobody vouches for. Any thread.
#pragma once

#include <grpcpp/server.h>

#include <memory>

#include "server/rpc/admin_service.h"
#include "server/rpc/inference_service.h"
#include "server/transport/unique_fd.h"

namespace quire {

class GrpcServer {
 public:
  // Starts gRPC's threads. Health is NOT_SERVING until SetServing(true).
  explicit GrpcServer(const ServingContext& context);
  // Cancels what is left of the calls and waits for their end. The connections must be closed
  // before: gRPC answers CANCELLED to a call that arrives after this has begun.
  ~GrpcServer();

  // Takes over a non-blocking connection that speaks HTTP/2 in the clear.
  void AddConnection(UniqueFd connection);

  // What grpc.health.v1 answers for "" and for each service.
  void SetServing(bool serving);

 private:
  InferenceService inference_;
  AdminService admin_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace quire
