#include "server/rpc/grpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>

#include "absl/time/clock.h"
#include "kernels/base/check.h"
#include "server/request/limits.h"

namespace quire {

namespace {

constexpr size_t kMemoryQuotaBytes = size_t{512} << 20;  // of gRPC's own buffers

// Process-wide switches, set before the first server is built.
void ConfigureLibraries() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // Clients cause parse errors; they are told in the status and do not fill our log.
  google::protobuf::SetLogHandler(nullptr);
}

void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("quire").Resize(kMemoryQuotaBytes));
  // A compressed message could grow without bound when it is opened: clients send plain ones.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);

  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);  // per connection
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 256 << 10);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // windows stay bounded
  // Clients may ping an idle connection, but not more often than this; ours finds dead clients.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
}

}  // namespace

GrpcServer::GrpcServer(const ServingContext& context) : inference_(context), admin_(context) {
  ConfigureLibraries();
  grpc::ServerBuilder builder;
  SetLimits(builder);
  builder.RegisterService(&inference_);
  builder.RegisterService(&admin_);
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr) << "gRPC refused its configuration";
  SetServing(false);
}

GrpcServer::~GrpcServer() { server_->Shutdown(absl::ToChronoTime(absl::Now())); }

void GrpcServer::AddConnection(UniqueFd connection) {
  grpc::AddInsecureChannelFromFd(server_.get(), connection.Release());
}

void GrpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  for (const char* service :
       {"", v1::Inference::service_full_name(), v1::Admin::service_full_name()}) {
    health->SetServingStatus(service, serving);
  }
}

}  // namespace quire
