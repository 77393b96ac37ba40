#include "engine/engine_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/attention_shapes.h"
#include "engine/model/linear_groups.h"
#include "engine/request_check.h"
#include "engine/runner/attention_selector.h"
#include "engine/runner/cascade_plan.h"
#include "engine/runner/kv_calibration.h"
#include "engine/serving_dtype.h"
#include "kernels/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace quire {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// What graphs, plans and the code of kernels usually take of a GPU, for the plan that is made
// before they are there; afterwards they are measured.
constexpr int64_t kUsualGpuLateBytes = 512 * kMiB;

absl::StatusOr<DType> ChooseDType(const EngineConfig& config, const ModelConfig& model,
                                  Backend& backend) {
  ASSIGN_OR_RETURN(const ServingDType serving,
                   ChooseServingDType(config.dtype, model.dtype, backend.device().info()));
  if (serving.dtype == model.dtype) return serving.dtype;
  spdlog::info("a checkpoint in {} is computed in {}, {}", DTypeName(model.dtype),
               DTypeName(serving.dtype), serving.why);
  return serving.dtype;
}

absl::StatusOr<int64_t> ServingModelLen(const EngineConfig& config, const ModelConfig& model) {
  // Dynamic rope changes every position once it stretches: only who asks for length gets it.
  if (config.max_model_len == 0 && model.rope.type == RopeType::kDynamic) {
    return model.max_position_embeddings;
  }
  if (config.max_model_len == 0) return MaxSequenceLength(model);
  if (config.max_model_len < 0 || config.max_model_len > MaxSequenceLength(model)) {
    return absl::OutOfRangeError(absl::StrCat("--max-model-len: ", config.max_model_len,
                                              " is outside the model's 1 .. ",
                                              MaxSequenceLength(model), " positions"));
  }
  return config.max_model_len;
}

absl::Status CheckLimits(const StepLimits& step) {
  if (step.max_num_seqs < 1 || step.max_num_batched_tokens < step.max_num_seqs) {
    return absl::OutOfRangeError(
        absl::StrCat("--max-num-batched-tokens (", step.max_num_batched_tokens,
                     ") must be at least --max-num-seqs (", step.max_num_seqs,
                     "), which must be at least 1: every running sequence adds a token to a step"));
  }
  return absl::OkStatus();
}

// 0: prefixes that decodes share are read with each of them. The CPU's cores do not wait for memory
// there. Several layer groups have block tables of their own.
int64_t MinPrefixTokens(const EngineConfig& config, const EngineParts& parts) {
  if (parts.geometries.size() != 1 || !HasCascade(parts.geometries[0])) return 0;
  if (config.min_prefix_tokens.has_value()) return *config.min_prefix_tokens;
  if (parts.backend->device().info().kind != DeviceKind::kCuda) return 0;
  const AttentionGeometry& geometry = parts.geometries[0];
  // Of a layer. Reading them costs more time than two levels and their merge (docs/figures.md).
  constexpr int64_t kMinBytes = int64_t{512} << 20;
  return kMinBytes /
         (2 * geometry.num_kv_heads * geometry.head_dim * DTypeBytes(geometry.kv_dtype));
}

absl::StatusOr<AttentionPaths> OpenAttention(const EngineConfig& config, const EngineParts& parts) {
  Backend& backend = *parts.backend;
  const AttentionDemand demand = {.geometries = parts.geometries,
                                  .max_num_seqs = parts.step.max_num_seqs,
                                  .sm_version = backend.device().info().sm_version};
  std::vector<const AttentionCapabilities*> available;
  for (const AttentionPath path : {AttentionPath::kNative, AttentionPath::kTrtllm}) {
    AttentionBackend* attention = backend.attention(path);
    if (attention != nullptr) available.push_back(&attention->capabilities());
  }
  const auto select = [&](AttentionPhase phase) -> absl::StatusOr<AttentionPath> {
    auto path = SelectAttentionPath(phase, config.attention_path, demand, available);
    if (!absl::IsInvalidArgument(path.status()) || !config.kv_cache_dtype) return path;
    return absl::OutOfRangeError(absl::StrCat("--kv-cache-dtype ",
                                              DTypeName(*config.kv_cache_dtype), ": ",
                                              path.status().message(), "; use auto"));
  };
  ASSIGN_OR_RETURN(const AttentionPath prefill, select(AttentionPhase::kPrefill));
  ASSIGN_OR_RETURN(const AttentionPath decode, select(AttentionPhase::kDecode));
  return AttentionPaths{
      .prefill = backend.attention(prefill),
      .decode = backend.attention(decode),
      .max_prefix_groups = MinPrefixTokens(config, parts) > 0 ? kNumPrefixGroups : 0};
}

BatchLimits MakeBatchLimits(const StepLimits& step, const KvLayout& layout, int64_t max_model_len) {
  BatchLimits limits;
  limits.max_num_seqs = step.max_num_seqs;
  limits.max_num_batched_tokens = step.max_num_batched_tokens;
  limits.max_blocks_per_seq = CeilDiv<int64_t>(max_model_len, layout.block_size);
  limits.block_size = layout.block_size;
  limits.num_groups = static_cast<int32_t>(layout.groups.size());
  limits.max_block_updates =
      limits.num_groups * (limits.max_num_seqs + 4 * limits.max_blocks_per_seq);
  limits.max_bias_per_seq = kMaxLogitBias + kMaxStopTokenIds;
  return limits;
}

DecoderLimits MakeDecoderLimits(const StepLimits& step, int64_t max_model_len) {
  return {.max_num_batched_tokens = step.max_num_batched_tokens,
          .max_logit_rows = step.max_num_seqs,
          .max_model_len = max_model_len};
}

// Those that were asked for, where replaying pays and the attention paths can be captured.
std::vector<int32_t> CapturedQueryLens(const EngineConfig& config, const EngineParts& parts) {
  std::vector<int32_t> query_lens;
  if (!parts.backend->device().info().use_graphs || config.enforce_eager) return query_lens;
  const GraphSupport decode = parts.attention.decode->capabilities().graph_support;
  const GraphSupport uniform =
      std::min(decode, parts.attention.prefill->capabilities().graph_support);
  for (const int32_t query_len : config.uniform_query_lens) {
    if (query_len == 1 ? decode >= GraphSupport::kSingleTokenDecode
                       : uniform >= GraphSupport::kUniformBatch) {
      query_lens.push_back(query_len);
    }
  }
  return query_lens;
}

ModelRunnerConfig MakeRunnerConfig(const EngineConfig& config, EngineParts& parts,
                                   int64_t max_model_len) {
  BatchLimits limits = MakeBatchLimits(parts.step, parts.kv_layout, max_model_len);
  limits.min_prefix_tokens = MinPrefixTokens(config, parts);
  return {.limits = limits,
          .max_model_len = max_model_len,
          .vocab_size = parts.model.config.vocab_size,
          .attention = parts.geometries,
          .trace = config.step_trace,
          .captured_query_lens = CapturedQueryLens(config, parts),
          .progress = config.progress};
}

SchedulerConfig MakeSchedulerConfig(const EngineConfig& config, const EngineParts& parts) {
  SchedulerConfig scheduler;
  scheduler.max_num_seqs = parts.step.max_num_seqs;
  scheduler.max_num_batched_tokens = parts.step.max_num_batched_tokens;
  scheduler.max_model_len = parts.model.max_model_len;
  scheduler.max_num_queued_reqs = config.max_num_queued_reqs;
  scheduler.max_num_queued_tokens = config.max_num_queued_tokens;
  return scheduler;
}

BlockManagerConfig MakeBlockManagerConfig(const EngineConfig& config, const EngineParts& parts) {
  BlockManagerConfig blocks;
  const KvLayout& layout = parts.kv_layout;
  blocks.num_blocks = parts.kv_arena->num_blocks();
  blocks.block_size = layout.block_size;
  blocks.groups.clear();
  blocks.hash_context = parts.weights->fingerprint();
  for (const KvLayerGroup& group : layout.groups) {
    blocks.groups.push_back(group.spec);
    absl::StrAppend(&blocks.hash_context, "/", DTypeName(group.spec.dtype), ":",
                    absl::StrJoin(group.layers, ","));
  }
  if (config.calculate_kv_scales) absl::StrAppend(&blocks.hash_context, "/calculated scales");
  blocks.enable_prefix_caching = config.enable_prefix_caching;
  return blocks;
}

// On a GPU, which counts for itself, what is not accounted for is an entry, too.
absl::Status CloseLedger(Backend& backend, MemoryLedger& ledger) {
  ASSIGN_OR_RETURN(const MemoryInfo memory, backend.device().Memory());
  ledger.free_bytes = memory.free_bytes;
  if (backend.device().info().kind != DeviceKind::kCuda) return absl::OkStatus();
  int64_t other_bytes = ledger.available_bytes - memory.free_bytes;
  for (const auto& [what, bytes] : ledger.entries) other_bytes -= bytes;
  ledger.Add("graphs, plans, code, rounding", other_bytes);
  return absl::OkStatus();
}

constexpr char kSmallerSteps[] =
    "lower --max-num-batched-tokens, --max-num-seqs or --max-model-len";

// Adds to a shortage what to change.
absl::Status Advise(const absl::Status& status, absl::string_view advice) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(absl::StrCat(status.message(), "; ", advice));
}
template <typename T>
absl::StatusOr<T> Advise(absl::StatusOr<T> result, absl::string_view advice) {
  if (result.ok()) return result;
  return Advise(result.status(), advice);
}

// Adds to a shortage where the memory went so far.
absl::Status AddLedger(const absl::Status& status, EngineParts& parts) {
  if (!absl::IsResourceExhausted(status)) return status;
  const absl::StatusOr<MemoryInfo> memory = parts.backend->device().Memory();
  if (memory.ok()) parts.ledger.free_bytes = memory->free_bytes;
  return absl::ResourceExhaustedError(
      absl::StrCat(status.message(), "; memory in MiB: ", parts.ledger.ToLine()));
}

// What a step takes beside weights and KV cache: activations, metadata, block tables, sampling
// state.
int64_t StepBytes(const EngineConfig& config, EngineParts& parts, int64_t max_model_len) {
  const ModelRunnerConfig runner = MakeRunnerConfig(config, parts, max_model_len);
  const int64_t bytes = Decoder::BytesFor(parts.model.config, parts.model.dtype,
                                          MakeDecoderLimits(parts.step, max_model_len)) +
                        ModelRunner::BytesFor(runner);
  return config.device == DeviceKind::kCpu ? bytes + ModelRunner::PinnedBytesFor(runner) : bytes;
}

absl::StatusOr<KvPlan> PlanContext(const EngineConfig& config, EngineParts& parts,
                                   absl::FunctionRef<int64_t(int64_t)> other_bytes) {
  ASSIGN_OR_RETURN(const MemoryInfo memory, parts.backend->device().Memory());
  const KvDemand demand = {.layout = parts.kv_layout,
                           .step = parts.step,
                           .max_model_len = parts.model.max_model_len,
                           .may_be_lowered = config.max_model_len == 0};
  ASSIGN_OR_RETURN(KvPlan plan, PlanKvCache(config, demand, memory, other_bytes));
  if (!plan.lowered.empty()) spdlog::warn("{}", plan.lowered);
  parts.model.max_model_len = plan.max_model_len;
  return plan;
}

absl::Status CheckKvCacheDType(const EngineConfig& config, DType kv_cache_dtype) {
  if (IsFloat8(kv_cache_dtype)) return absl::OkStatus();
  if (!config.calculate_kv_scales && config.kv_cache_dtype_skip_layers.empty()) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(absl::StrCat(
      config.calculate_kv_scales ? "--calculate-kv-scales: a KV cache in "
                                 : "--kv-cache-dtype-skip-layers: a KV cache in ",
      DTypeName(kv_cache_dtype), config.calculate_kv_scales ? " has no scales" : " skips nothing",
      "; use it with --kv-cache-dtype fp8_e4m3 or fp8_e5m2"));
}

// What there is and what it can hold, before anything is read that takes time.
absl::Status PlanModel(const EngineConfig& config, EngineParts& parts) {
  ASSIGN_OR_RETURN(const MemoryInfo memory, parts.backend->device().Memory());
  parts.ledger.total_bytes = memory.total_bytes;
  parts.ledger.available_bytes = parts.ledger.free_bytes = memory.free_bytes;
  parts.step = ChooseStepLimits(config, memory.total_bytes);
  RETURN_IF_ERROR(CheckLimits(parts.step));
  ASSIGN_OR_RETURN(parts.model.config, LoadModelConfig(config.model_folder));
  ASSIGN_OR_RETURN(parts.model.generation, LoadGenerationConfig(config.model_folder));
  ASSIGN_OR_RETURN(parts.model.dtype, ChooseDType(config, parts.model.config, *parts.backend));
  ASSIGN_OR_RETURN(parts.model.max_model_len, ServingModelLen(config, parts.model.config));
  parts.model.kv_cache_dtype = config.kv_cache_dtype.value_or(parts.model.dtype);
  RETURN_IF_ERROR(CheckKvCacheDType(config, parts.model.kv_cache_dtype));
  ASSIGN_OR_RETURN(const std::vector<DType> kv_dtypes,
                   KvCacheDTypes(parts.model.config, parts.model.kv_cache_dtype,
                                 config.kv_cache_dtype_skip_layers, parts.model.dtype));
  parts.kv_layout = MakeKvLayout(parts.model.config, kv_dtypes, config.block_size);
  parts.geometries = MakeGeometries(parts.model.config, parts.kv_layout, parts.model.dtype);
  ASSIGN_OR_RETURN(parts.attention, OpenAttention(config, parts));
  const int64_t late_bytes = config.device == DeviceKind::kCuda ? kUsualGpuLateBytes : 0;
  const int64_t weights_bytes =
      Weights::BytesFor(parts.backend->weight_store(), parts.model.config, parts.model.dtype);
  return PlanContext(config, parts,
                     [&](int64_t max_model_len) {
                       return weights_bytes + late_bytes + StepBytes(config, parts, max_model_len);
                     })
      .status();
}

absl::Status OpenModel(const EngineConfig& config, EngineParts& parts) {
  const WeightsOptions options = {.format = config.load_format,
                                  .dtype = parts.model.dtype,
                                  .seed = config.seed,
                                  .num_threads = config.num_threads,
                                  .progress = config.progress};
  ASSIGN_OR_RETURN(
      Weights weights,
      Advise(
          Weights::Load(*parts.backend, parts.model.config, config.model_folder, options),
          "the model does not fit: serve a smaller one, end other programs on this device, or use "
          "one with more memory"));
  parts.weights = std::make_unique<Weights>(std::move(weights));
  parts.model.num_parameters = parts.weights->num_parameters();
  parts.model.matrix_bytes = parts.weights->matrix_bytes();
  parts.model.device_name = parts.backend->device().info().name;
  parts.ledger.Add("weights", parts.weights->size_bytes());
  return absl::OkStatus();
}

// Before the KV cache takes the memory that measuring needs.
absl::Status TuneGemm(const EngineConfig& config, EngineParts& parts) {
  if (!config.autotune) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, parts.backend->device().CreateStream());
  return parts.backend->weight_store().Tune(
      *stream,
      LinearGroups(*parts.weights, parts.step.max_num_batched_tokens, parts.step.max_num_seqs),
      config.progress);
}

// For a plan of the KV cache when all else has its memory.
int64_t NoOtherBytes(int64_t /*max_model_len*/) { return 0; }

absl::Status CalibrateKv(const EngineConfig& config, EngineParts& parts) {
  constexpr int64_t kMaxTokens = 256;
  if (!config.calculate_kv_scales) return absl::OkStatus();
  const int64_t num_tokens =
      std::min({kMaxTokens, parts.step.max_num_batched_tokens, parts.model.max_model_len});
  return CalibrateKvScales(*parts.backend, *parts.attention.prefill, parts.model.config,
                           {.dtype = parts.model.dtype,
                            .kv_dtype = parts.model.kv_cache_dtype,
                            .block_size = config.block_size,
                            .num_tokens = num_tokens},
                           *parts.decoder, *parts.weights);
}

// Activations, then addresses for the KV cache, then the runner, which captures them.
absl::Status OpenRunner(const EngineConfig& config, EngineParts& parts) {
  const int64_t max_model_len = parts.model.max_model_len;
  ASSIGN_OR_RETURN(
      parts.decoder,
      Advise(Decoder::Create(*parts.backend, parts.model.config, *parts.weights, parts.model.dtype,
                             MakeDecoderLimits(parts.step, max_model_len)),
             kSmallerSteps));
  parts.ledger.Add("activations", parts.decoder->size_bytes());
  RETURN_IF_ERROR(Advise(CalibrateKv(config, parts), kSmallerSteps));
  ASSIGN_OR_RETURN(const KvPlan most, PlanContext(config, parts, NoOtherBytes));
  ASSIGN_OR_RETURN(KvArena arena,
                   KvArena::Reserve(parts.backend->device(), parts.kv_layout, most.num_blocks));
  parts.kv_arena = std::make_unique<KvArena>(std::move(arena));
  parts.stages.End("memory");
  ASSIGN_OR_RETURN(
      parts.runner,
      Advise(ModelRunner::Create(*parts.backend, parts.attention, *parts.decoder, *parts.kv_arena,
                                 MakeRunnerConfig(config, parts, max_model_len)),
             kSmallerSteps));
  parts.ledger.Add("batch and sampling state", parts.runner->size_bytes());
  return absl::OkStatus();
}

// The KV cache gets what is left now that everything else has its memory.
absl::Status OpenKvCache(const EngineConfig& config, EngineParts& parts) {
  ASSIGN_OR_RETURN(const KvPlan plan, PlanContext(config, parts, NoOtherBytes));
  parts.model.num_kv_blocks = std::min(plan.num_blocks, parts.kv_arena->max_num_blocks());
  parts.model.block_size = config.block_size;
  parts.model.max_num_seqs = parts.step.max_num_seqs;
  parts.model.max_num_batched_tokens = parts.step.max_num_batched_tokens;
  RETURN_IF_ERROR(Advise(parts.kv_arena->Map(parts.model.num_kv_blocks),
                         "give the cache less with --kv-cache-memory-bytes"));
  parts.ledger.Add("KV cache", parts.kv_arena->size_bytes());
  return absl::OkStatus();
}

// The first steps touch memory for the first time, load the code of kernels and wake threads: here,
// and not in a client's first request. A scheduler of its own runs them, so that serving begins
// with clean books.
absl::Status WarmUp(const EngineConfig& config, EngineParts& parts) {
  constexpr int64_t kNumPromptTokens = 16, kNumGenerated = kNumWarmUpSteps;
  if (parts.model.max_model_len <= kNumGenerated) return absl::OkStatus();
  auto request = std::make_shared<Request>();
  request->prompt.assign(std::min(kNumPromptTokens, parts.model.max_model_len - kNumGenerated), 0);
  request->sampling.top_k = 20;
  request->sampling.top_p = 0.9f;
  request->stop.max_tokens = kNumGenerated;
  Scheduler scheduler(MakeSchedulerConfig(config, parts), MakeBlockManagerConfig(config, parts));
  RETURN_IF_ERROR(scheduler.Add(request));
  while (scheduler.HasUnfinished()) {
    parts.runner->Submit(scheduler.Schedule());
    ASSIGN_OR_RETURN(StepResult result, parts.runner->Wait());
    scheduler.Commit(std::move(result));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<EngineParts>> OpenEngineParts(const EngineConfig& config,
                                                             std::unique_ptr<Backend> backend) {
  auto parts = std::make_unique<EngineParts>();
  parts->backend = std::move(backend);
  RETURN_IF_ERROR(PlanModel(config, *parts));
  RETURN_IF_ERROR(AddLedger(OpenModel(config, *parts), *parts));
  parts->stages.End("weights");
  RETURN_IF_ERROR(AddLedger(Advise(TuneGemm(config, *parts), kSmallerSteps), *parts));
  parts->stages.End("tuning");
  RETURN_IF_ERROR(AddLedger(OpenRunner(config, *parts), *parts));
  parts->stages.End("runner");
  RETURN_IF_ERROR(AddLedger(OpenKvCache(config, *parts), *parts));
  parts->stages.End("KV cache");
  RETURN_IF_ERROR(AddLedger(WarmUp(config, *parts), *parts));
  RETURN_IF_ERROR(CloseLedger(*parts->backend, parts->ledger));
  parts->stages.End("warm-up");
  parts->scheduler = std::make_unique<Scheduler>(MakeSchedulerConfig(config, *parts),
                                                 MakeBlockManagerConfig(config, *parts));
  return parts;
}

}  // namespace quire
