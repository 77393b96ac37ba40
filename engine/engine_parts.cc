#include "engine/engine_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/attention_shapes.h"
#include "engine/model/linear_groups.h"
#include "engine/runner/attention_selector.h"
#include "engine/runner/kv_calibration.h"
#include "kernels/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace quire {

namespace {

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
    const DType kv_dtype = parts.model.kv_cache_dtype;
    if (!absl::IsInvalidArgument(path.status()) || kv_dtype == parts.model.dtype) return path;
    return absl::OutOfRangeError(absl::StrCat("--kv-cache-dtype ", DTypeName(kv_dtype), ": ",
                                              path.status().message(), "; use ",
                                              DTypeName(parts.model.dtype)));
  };
  ASSIGN_OR_RETURN(const AttentionPath prefill, select(AttentionPhase::kPrefill));
  ASSIGN_OR_RETURN(const AttentionPath decode, select(AttentionPhase::kDecode));
  // Prompts of the second path may round more than its decodes.
  const auto prefix =
      SelectAttentionPath(AttentionPhase::kPrefill, AttentionPath::kNative, demand, available);
  return AttentionPaths{.prefill = backend.attention(prefill),
                        .decode = backend.attention(decode),
                        .prefix = backend.attention(prefix.ok() ? *prefix : prefill),
                        .max_prefix_groups = parts.min_prefix_tokens > 0 ? kNumPrefixGroups : 0};
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
  ModelRunnerConfig runner = RunnerSizes(parts, max_model_len);
  runner.attention = parts.geometries;
  runner.trace = config.step_trace;
  runner.captured_query_lens = CapturedQueryLens(config, parts);
  runner.progress = config.progress;
  return runner;
}

SchedulerConfig MakeSchedulerConfig(const EngineConfig& config, const EngineParts& parts) {
  SchedulerConfig scheduler;
  scheduler.max_num_seqs = parts.step.max_num_seqs;
  scheduler.max_num_batched_tokens = parts.step.max_num_batched_tokens;
  scheduler.max_model_len = parts.model.max_model_len;
  scheduler.max_num_queued_reqs = config.max_num_queued_reqs;
  scheduler.max_num_queued_tokens = config.max_num_queued_tokens;
  scheduler.snapshot_interval = config.snapshot_interval;
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
  blocks.num_state_slots = parts.state_arena.num_slots();
  blocks.num_reserved_states = parts.step.max_num_seqs;
  blocks.snapshot_grid = kSnapshotGrid;
  for (const auto& [layer, spec] : parts.state_layout) {
    absl::StrAppend(&blocks.hash_context, "/", DTypeName(spec.dtype), ":", layer);
  }
  return blocks;
}

// Sets the ledger's free memory. A GPU counts its memory itself: there, memory that no other entry
// accounts for becomes an entry, too.
absl::Status CloseLedger(EngineParts& parts) {
  Device& device = parts.backend->device();
  MemoryLedger& ledger = parts.ledger;
  ASSIGN_OR_RETURN(const MemoryInfo memory, device.Memory());
  // Memory that the runner keeps for graphs already belongs to them.
  ledger.free_bytes = std::max<int64_t>(0, memory.free_bytes - parts.runner->late_bytes());
  if (device.info().kind != DeviceKind::kCuda) return absl::OkStatus();
  int64_t other_bytes = ledger.available_bytes - ledger.free_bytes;
  for (const auto& [what, bytes] : ledger.entries) other_bytes -= bytes;
  ledger.Add(kLateEntry, other_bytes);
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

// Finds out how much memory there is and what it can hold, before anything is read that takes time.
absl::Status PlanModel(const EngineConfig& config, EngineParts& parts) {
  ASSIGN_OR_RETURN(const DeviceFacts device, FactsOf(*parts.backend));
  parts.ledger.total_bytes = device.memory.total_bytes;
  parts.ledger.available_bytes = parts.ledger.free_bytes = device.memory.free_bytes;
  ASSIGN_OR_RETURN(static_cast<StartPlan&>(parts), PlanStart(config, device));
  parts.geometries = MakeGeometries(parts.model.config, parts.kv_layout, parts.model.dtype);
  ASSIGN_OR_RETURN(parts.attention, OpenAttention(config, parts));
  ASSIGN_OR_RETURN(const KvPlan kv,
                   PlanContext(config, parts, device.memory, [&](int64_t max_model_len) {
                     return BytesBesideKv(parts, config.device, max_model_len);
                   }));
  parts.model.max_model_len = kv.max_model_len;
  return absl::OkStatus();
}

// Does the same when everything else has its memory, except `late_bytes`.
absl::StatusOr<KvPlan> PlanContextNow(const EngineConfig& config, EngineParts& parts,
                                      int64_t late_bytes) {
  ASSIGN_OR_RETURN(const MemoryInfo memory, parts.backend->device().Memory());
  ASSIGN_OR_RETURN(KvPlan kv,
                   PlanContext(config, parts, memory,
                               [late_bytes](int64_t /*max_model_len*/) { return late_bytes; }));
  parts.model.max_model_len = kv.max_model_len;
  return kv;
}

absl::Status OpenModel(const EngineConfig& config, EngineParts& parts) {
  const WeightsOptions options = {.format = config.load_format,
                                  .dtype = parts.model.dtype,
                                  .seed = config.seed,
                                  .router_skew = config.dummy_router_skew,
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
  parts.ledger.Add(kWeightsEntry, parts.weights->size_bytes());
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

absl::Status OpenStates(EngineParts& parts) {
  if (parts.state_layout.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(parts.state_arena,
                   Advise(StateArena::Allocate(parts.backend->device(), parts.state_layout,
                                               parts.num_state_slots),
                          "lower --max-num-seqs or --state-cache-memory-bytes"));
  parts.ledger.Add(kRecurrentEntry, parts.state_arena.size_bytes());
  return absl::OkStatus();
}

// Activations, then states, then addresses for the KV cache, then the runner, which captures them.
absl::Status OpenRunner(const EngineConfig& config, EngineParts& parts) {
  const int64_t max_model_len = parts.model.max_model_len;
  ASSIGN_OR_RETURN(parts.decoder, Advise(Decoder::Create(*parts.backend, parts.model.config,
                                                         *parts.weights, parts.model.dtype,
                                                         DecoderLimitsFor(parts, max_model_len)),
                                         kSmallerSteps));
  parts.ledger.Add(kActivationsEntry, parts.decoder->size_bytes());
  RETURN_IF_ERROR(Advise(CalibrateKv(config, parts), kSmallerSteps));
  RETURN_IF_ERROR(OpenStates(parts));
  ASSIGN_OR_RETURN(const KvPlan most, PlanContextNow(config, parts, /*late_bytes=*/0));
  ASSIGN_OR_RETURN(KvArena arena,
                   KvArena::Reserve(parts.backend->device(), parts.kv_layout, most.num_blocks));
  parts.kv_arena = std::make_unique<KvArena>(std::move(arena));
  parts.stages.End("memory");
  ASSIGN_OR_RETURN(
      parts.runner,
      Advise(ModelRunner::Create(*parts.backend, parts.attention, *parts.decoder, *parts.kv_arena,
                                 parts.state_arena, MakeRunnerConfig(config, parts, max_model_len)),
             kSmallerSteps));
  parts.ledger.Add(kStateEntry, parts.runner->size_bytes());
  return absl::OkStatus();
}

// The KV cache gets what is left now that everything else has its memory.
absl::Status OpenKvCache(const EngineConfig& config, EngineParts& parts) {
  ASSIGN_OR_RETURN(const KvPlan plan, PlanContextNow(config, parts, parts.runner->late_bytes()));
  parts.model.num_kv_blocks = std::min(plan.num_blocks, parts.kv_arena->max_num_blocks());
  parts.model.block_size = config.block_size;
  parts.model.max_num_seqs = parts.step.max_num_seqs;
  parts.model.max_num_batched_tokens = parts.step.max_num_batched_tokens;
  RETURN_IF_ERROR(Advise(parts.kv_arena->Map(parts.model.num_kv_blocks),
                         "give the cache less with --kv-cache-memory-bytes"));
  parts.ledger.Add(kKvCacheEntry, parts.kv_arena->size_bytes());
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
    parts.runner->Sample();
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
  RETURN_IF_ERROR(CloseLedger(*parts));
  parts->stages.End("warm-up");
  parts->scheduler = std::make_unique<Scheduler>(MakeSchedulerConfig(config, *parts),
                                                 MakeBlockManagerConfig(config, *parts));
  return parts;
}

}  // namespace quire
