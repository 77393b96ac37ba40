// Abort as both of vLLM's contracts have it: a list of request ids. An id that does not run, or no
// longer runs, is not an error.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/call/unary_method.h"
#include "server/request/request_registry.h"

namespace quire {

// The method "Abort" of `service`. `Request` has request_ids; `Response` is empty.
template <typename Request, typename Response>
GrpcMethod AbortMethod(const google::protobuf::ServiceDescriptor& service,
                       RequestRegistry* registry) {
  return UnaryMethod<Request>(
      *service.FindMethodByName("Abort"),
      [registry](const Request& request, const GrpcCall& call) -> absl::StatusOr<Response> {
        absl::Status status;
        for (const std::string& id : request.request_ids()) {
          status.Update(registry->Cancel(*call.principal(), id, "").status());
        }
        if (!status.ok()) return status;
        return Response();
      });
}

}  // namespace quire
