#include "engine/engine.h"
#include "kernels/base/status_macros.h"
#include "quire/v1/inference.pb.h"
#include "server/call/service_methods.h"
#include "server/call/unary_method.h"
#include "server/request/field_error.h"
#include "server/request/generate/describe.h"

namespace quire {

namespace {

v1::GetStatusResponse ToMessage(const ServerStatus& status) {
  const SchedulerStats& scheduler = status.engine.scheduler;
  v1::GetStatusResponse response;
  response.set_waiting_requests(scheduler.num_waiting);
  response.set_waiting_tokens(scheduler.num_waiting_tokens);
  response.set_running_sequences(scheduler.num_running);
  response.set_paused_sequences(scheduler.num_paused);
  response.set_kv_blocks_total(scheduler.blocks.num_blocks);
  response.set_kv_blocks_in_use(scheduler.blocks.num_held);
  response.set_kv_blocks_cached(scheduler.blocks.num_cached_free);
  response.set_prefix_queried_tokens(scheduler.blocks.prefix_queried_tokens);
  response.set_prefix_hit_tokens(scheduler.blocks.prefix_hit_tokens);
  response.set_preemptions(scheduler.num_preemptions);
  response.set_steps(static_cast<int64_t>(status.engine.num_steps));
  response.set_prompt_tokens(status.engine.num_prompt_tokens);
  response.set_generated_tokens(status.engine.num_generated_tokens);
  response.set_uptime_seconds(absl::ToDoubleSeconds(status.uptime));
  response.set_draining(!status.engine.admitting);
  response.set_active_streams(status.num_requests);
  return response;
}

}  // namespace

GrpcService AdminService(const ServingContext& context) {
  const google::protobuf::ServiceDescriptor& service =
      *v1::AbortRequest::descriptor()->file()->FindServiceByName("Admin");
  return {
      service.full_name(),
      {
          UnaryMethod<v1::GetStatusRequest>(
              *service.FindMethodByName("GetStatus"),
              [context](const v1::GetStatusRequest&, const GrpcCall&) {
                return absl::StatusOr<v1::GetStatusResponse>(ToMessage(DescribeStatus(context)));
              }),
          UnaryMethod<v1::AbortRequest>(
              *service.FindMethodByName("Abort"),
              [registry = context.registry](const v1::AbortRequest& message, const GrpcCall& call)
                  -> absl::StatusOr<v1::AbortResponse> {
                if (message.request_id().empty()) {
                  return InvalidField("request_id", "is empty; name the request to end");
                }
                v1::AbortResponse response;
                ASSIGN_OR_RETURN(
                    const bool found,
                    registry->Cancel(*call.principal(), message.request_id(), message.principal()));
                response.set_found(found);
                return response;
              }),
          UnaryMethod<v1::FlushPrefixCacheRequest>(
              *service.FindMethodByName("FlushPrefixCache"),
              [engine = context.engine](const v1::FlushPrefixCacheRequest&, const GrpcCall&) {
                v1::FlushPrefixCacheResponse response;
                response.set_blocks(engine->FlushPrefixCache());
                return absl::StatusOr<v1::FlushPrefixCacheResponse>(response);
              }),
      }};
}

}  // namespace quire
