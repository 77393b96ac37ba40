#include "server/surfaces/vllm/vllm_inference_service.h"

#include <memory>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "server/base/version.h"
#include "server/call/unary_method.h"
#include "server/request/field_error.h"
#include "server/request/generate/describe.h"
#include "server/request/random_id.h"
#include "server/surfaces/grpc/generate_method.h"
#include "server/surfaces/vllm/abort_method.h"
#include "server/surfaces/vllm/vllm_inference_request.h"
#include "server/surfaces/vllm/vllm_inference_writer.h"
#include "vllm/control.pb.h"
#include "vllm/inference.pb.h"

namespace quire {

namespace {

const google::protobuf::ServiceDescriptor& Inference() {
  return *::vllm::GenerateRequest::descriptor()->file()->FindServiceByName("Inference");
}

const google::protobuf::ServiceDescriptor& Control() {
  return *::vllm::ServerInfo::descriptor()->file()->FindServiceByName("Control");
}

// One answer has room for one sequence.
absl::StatusOr<Generation> FromOnce(::vllm::GenerateRequest request, const ModelFacts& model) {
  if (request.sampling().num_sequences() > 1) {
    return InvalidField("sampling.num_sequences",
                        "Generate answers with one sequence; call GenerateStream for more");
  }
  return FromVllmInference(std::move(request), model);
}

::vllm::ServerInfo DescribeServer(const ServingContext& context, const std::string& instance_id) {
  const ModelInfo& model = context.engine->model_info();
  ::vllm::ServerInfo info;
  info.set_engine_version(std::string("quire ") + kVersion);
  info.set_api_version("1");
  info.set_instance_id(instance_id);
  ::vllm::ParallelismInfo& parallelism = *info.mutable_parallelism();
  parallelism.set_tensor_parallel_size(1);
  parallelism.set_pipeline_parallel_size(1);
  parallelism.set_data_parallel_size(1);
  parallelism.set_decode_context_parallel_size(1);
  parallelism.set_world_size(1);
  parallelism.set_data_parallel_size_local(1);
  info.set_max_model_len(static_cast<uint32_t>(model.max_model_len));
  info.set_kv_block_size(static_cast<uint32_t>(model.block_size));
  info.set_total_kv_blocks(static_cast<uint64_t>(model.num_kv_blocks));
  info.set_max_running_requests(static_cast<uint64_t>(model.max_num_seqs));
  info.set_max_batched_tokens(static_cast<uint64_t>(model.max_num_batched_tokens));
  return info;
}

::vllm::ModelInfo DescribeModelInfo(const ServingContext& context) {
  const ModelFacts& facts = *context.model;
  ::vllm::ModelInfo info;
  info.set_model_id(facts.path);
  info.set_served_model_name(facts.served_names.front());
  for (size_t i = 1; i < facts.served_names.size(); ++i) {
    info.add_served_model_aliases(facts.served_names[i]);
  }
  info.set_supports_text_input(facts.has_tokenizer);
  info.set_supports_token_ids_input(true);
  return info;
}

}  // namespace

GrpcService VllmInferenceService(const ServingContext& context) {
  const ModelFacts* model = context.model;
  GrpcService service = {Inference().full_name(), {}};
  service.methods.push_back(MakeGenerateMethod<VllmOnceWriter, ::vllm::GenerateRequest>(
      PathOf(*Inference().FindMethodByName("Generate")), context,
      [model](::vllm::GenerateRequest request) { return FromOnce(std::move(request), *model); }));
  service.methods.push_back(MakeGenerateMethod<VllmStreamWriter, ::vllm::GenerateRequest>(
      PathOf(*Inference().FindMethodByName("GenerateStream")), context,
      [model](::vllm::GenerateRequest request) {
        return FromVllmInference(std::move(request), *model);
      }));
  return service;
}

GrpcService VllmControlService(const ServingContext& context) {
  const google::protobuf::ServiceDescriptor& control = Control();
  GrpcService service = {control.full_name(), {}};
  service.methods.push_back(UnaryMethod<::vllm::GetServerInfoRequest>(
      *control.FindMethodByName("GetServerInfo"),
      [context, id = RandomId()](const ::vllm::GetServerInfoRequest&, const GrpcCall&) {
        return absl::StatusOr<::vllm::ServerInfo>(DescribeServer(context, id));
      }));
  service.methods.push_back(UnaryMethod<::vllm::GetModelInfoRequest>(
      *control.FindMethodByName("GetModelInfo"),
      [context](const ::vllm::GetModelInfoRequest&, const GrpcCall&) {
        return absl::StatusOr<::vllm::ModelInfo>(DescribeModelInfo(context));
      }));
  service.methods.push_back(
      AbortMethod<::vllm::AbortRequest, ::vllm::AbortResponse>(control, context.registry));
  service.methods.push_back(UnaryMethod<::vllm::GetKvEventSourcesRequest>(
      *control.FindMethodByName("GetKvEventSources"),
      [](const ::vllm::GetKvEventSourcesRequest&, const GrpcCall&) {
        return absl::StatusOr<::vllm::GetKvEventSourcesResponse>(
            ::vllm::GetKvEventSourcesResponse());
      }));
  return service;
}

}  // namespace quire
