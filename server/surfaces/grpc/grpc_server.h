// GrpcServer: the services on HTTP/2: lets callers in, finds the method of a request, begins its
// call. Any thread, except where said.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/auth/gate.h"
#include "server/call/grpc_call.h"
#include "server/call/live_calls.h"
#include "server/call/service_methods.h"
#include "server/request/generate/serving_context.h"
#include "server/surfaces/grpc/health_service.h"
#include "server/wire/http/http_exchange.h"

namespace quire {

class GrpcServer {
 public:
  // Serves these beside health and reflection. Health is NOT_SERVING until SetServing(true).
  GrpcServer(const ServingContext& context, std::vector<GrpcService> services);

  // A StartExchange, on the loop of the stream's connection.
  std::shared_ptr<HttpExchange> Start(const RequestHead& head, HttpStream* stream);

  // Sets the answer of grpc.health.v1 for "", "readiness" and each service. "liveness" stays
  // SERVING once it has served, until SetDead.
  void SetServing(bool serving);
  void SetDead();

  // Ends the watches of health, and waits until every client has the end of its calls; false when
  // the deadline came first.
  bool FinishCalls(absl::Time deadline);

 private:
  void AddMethods(std::vector<GrpcMethod> methods);
  absl::StatusOr<std::shared_ptr<const Principal>> Admit(const RequestHead& head,
                                                         HttpStream* stream) const;
  // Answers without a call, and says so in the access log.
  void Refuse(const RequestHead& head, const absl::Status& status, HttpStream* stream) const;

  const Gate& gate_;
  const std::vector<std::string> service_names_;
  LiveCalls live_calls_;
  const CallWatch watch_;
  HealthService health_;
  absl::flat_hash_map<std::string, std::unique_ptr<const GrpcMethod>> methods_;  // by path
};

}  // namespace quire
