// quire.v1.Admin on gRPC's callback API. gRPC's threads.
#pragma once

#include "quire/v1/inference.grpc.pb.h"
#include "server/generate/serving_context.h"

namespace quire {

// Every method takes and gives raw bytes; rpc/wire.h says why.
template <typename Service>
using RawAdmin = v1::Admin::WithRawCallbackMethod_GetStatus<v1::Admin::WithRawCallbackMethod_Abort<
    v1::Admin::WithRawCallbackMethod_FlushPrefixCache<Service>>>;

class AdminService final : public RawAdmin<v1::Admin::Service> {
 public:
  explicit AdminService(const ServingContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* call,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* call,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* FlushPrefixCache(grpc::CallbackServerContext* call,
                                             const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* answer) override;

 private:
  const ServingContext context_;
};

}  // namespace quire
