#include "server/surfaces/vllm/vllm_engine_service.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/engine.h"
#include "kernels/base/clock.h"
#include "server/base/version.h"
#include "server/call/unary_method.h"
#include "server/request/field_error.h"
#include "server/request/generate/describe.h"
#include "server/surfaces/grpc/generate_method.h"
#include "server/surfaces/vllm/abort_method.h"
#include "server/surfaces/vllm/kv_event_stream.h"
#include "server/surfaces/vllm/tokenizer_archive.h"
#include "server/surfaces/vllm/vllm_engine_request.h"
#include "server/surfaces/vllm/vllm_engine_writer.h"
#include "server/text/answer/model_answers.h"
#include "vllm/grpc/engine/vllm_engine.pb.h"

namespace quire {

namespace {

namespace vllm = ::vllm::grpc::engine;
namespace common = ::smg::grpc::common;

const google::protobuf::ServiceDescriptor& Service() {
  return *vllm::GenerateRequest::descriptor()->file()->FindServiceByName("VllmEngine");
}

const google::protobuf::MethodDescriptor& Method(const char* name) {
  return *Service().FindMethodByName(name);
}

GrpcMethod GenerateMethodOf(const ServingContext& context) {
  return MakeGenerateMethod<VllmEngineWriter, vllm::GenerateRequest>(
      PathOf(Method("Generate")), context,
      [](vllm::GenerateRequest request) { return FromVllmEngine(std::move(request)); });
}

GrpcMethod UnimplementedMethod(const char* name, const char* sentence) {
  return {PathOf(Method(name)), [sentence](const GrpcCallRef& call, const std::string&) {
            call->Finish(absl::UnimplementedError(sentence));
          }};
}

vllm::HealthCheckResponse CheckHealth(const ServingContext& context) {
  const EngineStatus status = context.engine->status();
  vllm::HealthCheckResponse response;
  response.set_healthy(status.admitting && !status.failed);
  response.set_message(status.failed      ? "the engine has failed"
                       : status.admitting ? "OK"
                                          : "the server is shutting down");
  return response;
}

// Those that the model's makers recommend, for a router to fill in.
std::string DefaultsAsJson(const GenerationConfig& defaults) {
  nlohmann::json json = nlohmann::json::object();
  if (defaults.temperature) json["temperature"] = *defaults.temperature;
  if (defaults.top_p) json["top_p"] = *defaults.top_p;
  if (defaults.top_k) json["top_k"] = *defaults.top_k;
  if (defaults.min_p) json["min_p"] = *defaults.min_p;
  if (defaults.repetition_penalty) json["repetition_penalty"] = *defaults.repetition_penalty;
  if (defaults.max_new_tokens) json["max_tokens"] = *defaults.max_new_tokens;
  return json.empty() ? "" : json.dump();
}

vllm::GetModelInfoResponse DescribeForRouter(const ServingContext& context) {
  const ModelFacts& facts = *context.model;
  const ModelConfig& config = context.engine->model_info().config;
  vllm::GetModelInfoResponse response;
  response.set_model_path(facts.path);
  response.set_is_generation(true);
  response.set_max_context_length(static_cast<uint32_t>(facts.max_model_len));
  response.set_vocab_size(static_cast<uint32_t>(facts.vocab_size));
  response.set_served_model_name(facts.served_names.front());
  if (facts.has_tokenizer) response.set_tokenizer_path(facts.path);
  response.set_model_type(config.model_type);
  response.add_architectures(config.architecture);
  response.mutable_eos_token_ids()->Add(facts.eos_token_ids.begin(), facts.eos_token_ids.end());
  response.set_bos_token_id(config.bos_token_id.value_or(0));
  response.set_max_req_input_len(static_cast<int32_t>(facts.max_model_len - 1));
  response.set_default_sampling_params_json(DefaultsAsJson(facts.defaults));
  return response;
}

// How busy the server is, is for admins, as in quire.v1.Admin.
vllm::GetServerInfoResponse DescribeServer(const ServingContext& context, const GrpcCall& call) {
  const ModelDescription model = DescribeModel(context);
  const ServerStatus status = DescribeStatus(context);
  vllm::GetServerInfoResponse response;
  if (call.principal()->roles.Has(Role::kAdmin)) {
    response.set_active_requests(static_cast<uint32_t>(status.num_requests));
  }
  response.set_uptime_seconds(absl::ToDoubleSeconds(status.uptime));
  response.set_server_type("quire");
  response.set_data_parallel_size(1);
  response.set_kv_cache_dtype(model.kv_cache_dtype);
  response.set_block_size(model.block_size);
  response.set_model_dtype(model.dtype);
  response.set_max_num_seqs(static_cast<int32_t>(context.engine->model_info().max_num_seqs));
  response.set_constrained_decoding_start(
      context.answers->reasoning().is_none() ? "first_token" : "after_reasoning");
  return response;
}

// How many tokens were generated a second, over the last ten or so that somebody asked in.
class ThroughputMeter {
 public:
  double Measure(int64_t num_tokens) {
    constexpr absl::Duration kWindow = absl::Seconds(10);
    constexpr absl::Duration kLeast = absl::Milliseconds(500);
    const absl::Time now = MonotonicNow();
    absl::MutexLock lock(&mutex_);
    while (samples_.size() > 1 && now - samples_[1].time > kWindow) samples_.pop_front();
    if (samples_.empty() || now - samples_.back().time > kLeast) {
      samples_.push_back({now, num_tokens});
    }
    const double seconds = absl::ToDoubleSeconds(now - samples_.front().time);
    return seconds > 0 ? static_cast<double>(num_tokens - samples_.front().num_tokens) / seconds
                       : 0.0;
  }

 private:
  struct Sample {
    absl::Time time;
    int64_t num_tokens;
  };
  absl::Mutex mutex_;
  std::deque<Sample> samples_ ABSL_GUARDED_BY(mutex_);
};

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

vllm::GetLoadsResponse MeasureLoads(const ServingContext& context, ThroughputMeter& throughput) {
  const EngineStatus status = context.engine->status();
  const ModelInfo& model = context.engine->model_info();
  const SchedulerStats& scheduler = status.scheduler;
  const BlockStats& blocks = scheduler.blocks;
  vllm::GetLoadsResponse response;
  response.set_timestamp(absl::FormatTime(absl::RFC3339_full, WallNow(), absl::UTCTimeZone()));
  response.set_version(kVersion);
  response.set_dp_rank_count(1);
  vllm::SchedulerLoad& load = *response.add_loads();
  load.set_num_running_reqs(static_cast<int32_t>(scheduler.num_running));
  load.set_num_waiting_reqs(static_cast<int32_t>(scheduler.num_waiting));
  load.set_num_total_reqs(static_cast<int32_t>(scheduler.num_running + scheduler.num_waiting));
  load.set_num_used_tokens(static_cast<int32_t>(blocks.num_held * model.block_size));
  load.set_max_total_num_tokens(
      static_cast<int32_t>(std::min<int64_t>(blocks.num_blocks * model.block_size, INT32_MAX)));
  load.set_token_usage(Share(blocks.num_held, blocks.num_blocks));
  load.set_gen_throughput(throughput.Measure(status.num_generated_tokens));
  load.set_cache_hit_rate(Share(blocks.prefix_hit_tokens, blocks.prefix_queried_tokens));
  load.set_utilization(Share(scheduler.num_running, model.max_num_seqs));
  load.set_max_running_requests(static_cast<int32_t>(model.max_num_seqs));
  load.set_num_waiting_uncached_tokens(
      static_cast<int32_t>(std::min<int64_t>(scheduler.num_waiting_tokens, INT32_MAX)));
  return response;
}

absl::StatusOr<common::FlushCacheResponse> FlushCache(const common::FlushCacheRequest& request,
                                                      Engine& engine) {
  if (!(request.timeout_s() >= 0) || std::isinf(request.timeout_s())) {
    return InvalidField("timeout_s", "is not a number of seconds from 0 on");
  }
  common::FlushCacheResponse response;
  response.set_success(true);
  response.set_message(absl::StrCat(engine.FlushPrefixCache(), " blocks forgotten"));
  return response;
}

// Sends an archive piece by piece, the next when one is on its way.
class Download : public std::enable_shared_from_this<Download> {
 public:
  Download(GrpcCallRef call, std::shared_ptr<const ZipFile> zip)
      : call_(std::move(call)), zip_(std::move(zip)) {}

  void SendNext() {
    constexpr size_t kPieceBytes = size_t{64} << 10;
    if (call_->token()->cancelled()) return;
    common::GetTokenizerChunk chunk;
    chunk.set_data(zip_->bytes.substr(begin_, kPieceBytes));
    begin_ += chunk.data().size();
    if (begin_ < zip_->bytes.size()) {
      call_->Send(chunk.SerializeAsString(), [self = shared_from_this()] { self->SendNext(); });
      return;
    }
    chunk.set_sha256(zip_->sha256);
    call_->FinishWith(chunk.SerializeAsString());
  }

 private:
  const GrpcCallRef call_;
  const std::shared_ptr<const ZipFile> zip_;
  size_t begin_ = 0;
};

// Compressing is work for the pool, no matter which client asks. A client that asks later gets the
// archive that is there.
GrpcMethod GetTokenizerMethod(const ServingContext& context) {
  auto archive = std::make_shared<TokenizerArchive>(context.model->folder);
  return {PathOf(Method("GetTokenizer")),
          [context, archive](const GrpcCallRef& call, const std::string&) {
            if (absl::Status status = context.encoder->CheckHasTokenizer(""); !status.ok()) {
              call->Finish(status);
              return;
            }
            if (auto zip = archive->made(); zip != nullptr) {
              std::make_shared<Download>(call, std::move(zip))->SendNext();
              return;
            }
            context.work_pool->Add(
                {0, call->token(), call->cost(), [call, archive](const absl::Status& status) {
                   if (!status.ok()) {
                     call->Finish(status);
                     return;
                   }
                   auto zip = archive->Get();
                   if (zip.ok()) {
                     std::make_shared<Download>(call, *std::move(zip))->SendNext();
                   } else {
                     call->Finish(zip.status());
                   }
                 }});
          }};
}

// A method that only tells, from `tell(context)`.
template <typename Request, typename Tell>
GrpcMethod TellingMethod(const char* name, const Tell& tell) {
  return UnaryMethod<Request>(Method(name), [tell](const Request&, const GrpcCall&) {
    return absl::StatusOr<decltype(tell())>(tell());
  });
}

}  // namespace

GrpcService VllmEngineService(const ServingContext& context) {
  auto throughput = std::make_shared<ThroughputMeter>();
  GrpcService service = {Service().full_name(), {}};
  service.methods.push_back(GenerateMethodOf(context));
  service.methods.push_back(GetTokenizerMethod(context));
  service.methods.push_back(TellingMethod<vllm::HealthCheckRequest>(
      "HealthCheck", [context] { return CheckHealth(context); }));
  service.methods.push_back(TellingMethod<vllm::GetModelInfoRequest>(
      "GetModelInfo", [context] { return DescribeForRouter(context); }));
  service.methods.push_back(UnaryMethod<vllm::GetServerInfoRequest>(
      Method("GetServerInfo"), [context](const vllm::GetServerInfoRequest&, const GrpcCall& call) {
        return absl::StatusOr<vllm::GetServerInfoResponse>(DescribeServer(context, call));
      }));
  service.methods.push_back(TellingMethod<vllm::GetLoadsRequest>(
      "GetLoads", [context, throughput] { return MeasureLoads(context, *throughput); }));
  service.methods.push_back(
      AbortMethod<vllm::AbortRequest, vllm::AbortResponse>(Service(), context.registry));
  service.methods.push_back(UnaryMethod<common::FlushCacheRequest>(
      Method("FlushCache"),
      [engine = context.engine](const common::FlushCacheRequest& request, const GrpcCall&) {
        return FlushCache(request, *engine);
      }));
  service.methods.push_back(
      UnimplementedMethod("Embed", "this server generates; it makes no embeddings"));
  service.methods.push_back(SubscribeKvEventsMethod(context));
  for (const char* name : {"StartProfile", "StopProfile"}) {
    service.methods.push_back(
        UnimplementedMethod(name, "profiles are made by quire-bench timeline, not by the server"));
  }
  return service;
}

}  // namespace quire
