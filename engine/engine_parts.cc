#include "engine/engine_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/attention_shapes.h"
#include "engine/model/linear_products.h"
#include "engine/request_check.h"
#include "engine/runner/attention_selector.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kMaxCpuKvBytes = 4096 * kMiB;  // what vLLM's CPU backend takes by default, too

absl::StatusOr<DType> ServingDType(const EngineConfig& config, const ModelConfig& model) {
  const DType dtype =
      config.dtype.value_or(model.dtype == DType::kF16 ? DType::kBF16 : model.dtype);
  if (dtype == DType::kF32 || dtype == DType::kBF16) return dtype;
  return absl::InvalidArgumentError(absl::StrCat("dtype ", DTypeName(dtype),
                                                 " is not supported; use --dtype bfloat16 or "
                                                 "float32"));
}

absl::StatusOr<int64_t> ServingModelLen(const EngineConfig& config, const ModelConfig& model) {
  // Dynamic rope changes every position once it stretches: only who asks for length gets it.
  if (config.max_model_len == 0 && model.rope.type == RopeType::kDynamic) {
    return model.max_position_embeddings;
  }
  if (config.max_model_len == 0) return MaxSequenceLength(model);
  if (config.max_model_len < 0 || config.max_model_len > MaxSequenceLength(model)) {
    return absl::InvalidArgumentError(absl::StrCat("max_model_len is ", config.max_model_len,
                                                   "; the model's positions go up to ",
                                                   MaxSequenceLength(model)));
  }
  return config.max_model_len;
}

absl::Status CheckLimits(const EngineConfig& config) {
  if (config.max_num_seqs < 1 || config.max_num_batched_tokens < config.max_num_seqs) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_num_batched_tokens (", config.max_num_batched_tokens,
                     ") must be at least max_num_seqs (", config.max_num_seqs,
                     "), which must be at least 1: every running sequence adds a token to a step"));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttentionBackend*> OpenAttention(Backend& backend, const EngineConfig& config,
                                                AttentionGeometry geometry,
                                                const KvLayout& layout) {
  std::vector<const AttentionCapabilities*> available;
  for (const AttentionPath path : {AttentionPath::kNative, AttentionPath::kTrtllm}) {
    AttentionBackend* attention = backend.attention(path);
    if (attention != nullptr) available.push_back(&attention->capabilities());
  }
  for (const KvLayerGroup& group : layout.groups) {
    geometry.sliding_window = std::max(geometry.sliding_window, group.sliding_window);
  }
  ASSIGN_OR_RETURN(const AttentionPath path,
                   SelectAttentionPath(config.attention_path, geometry,
                                       backend.device().info().sm_version, available));
  return backend.attention(path);
}

BatchLimits MakeBatchLimits(const EngineConfig& config, const KvLayout& layout,
                            int64_t max_model_len) {
  BatchLimits limits;
  limits.max_num_seqs = config.max_num_seqs;
  limits.max_num_tokens = config.max_num_batched_tokens;
  limits.max_blocks_per_seq = CeilDiv<int64_t>(max_model_len, layout.block_size);
  limits.block_size = layout.block_size;
  limits.num_groups = static_cast<int32_t>(layout.groups.size());
  limits.max_block_updates =
      limits.num_groups * (limits.max_num_seqs + 4 * limits.max_blocks_per_seq);
  limits.max_bias_per_seq = kMaxLogitBias + kMaxStopTokenIds;
  return limits;
}

SchedulerConfig MakeSchedulerConfig(const EngineConfig& config, int64_t max_model_len) {
  SchedulerConfig scheduler;
  scheduler.max_num_seqs = config.max_num_seqs;
  scheduler.max_num_batched_tokens = config.max_num_batched_tokens;
  scheduler.max_model_len = max_model_len;
  scheduler.max_waiting_requests = config.max_waiting_requests;
  scheduler.max_waiting_tokens = config.max_waiting_tokens;
  return scheduler;
}

BlockManagerConfig MakeBlockManagerConfig(const EngineConfig& config, const EngineParts& parts) {
  BlockManagerConfig blocks;
  const KvLayout& layout = parts.kv_arena->layout();
  blocks.num_blocks = parts.kv_arena->num_blocks();
  blocks.block_size = layout.block_size;
  blocks.groups.clear();
  for (const KvLayerGroup& group : layout.groups) blocks.groups.push_back({group.sliding_window});
  blocks.enable_prefix_caching = config.enable_prefix_caching;
  blocks.hash_context = absl::StrCat(parts.weights->fingerprint(), "/", DTypeName(layout.dtype));
  return blocks;
}

// Memory of a GPU that nobody asks for by size, and that comes after the cache, whose size it would
// otherwise have to come out of: graphs, attention plans, the code of kernels when it is first
// used. What it really took is a line of the ledger.
int64_t LateBytes(Backend& backend) {
  return backend.device().info().kind == DeviceKind::kCuda ? 768 * kMiB : 0;
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

// Configuration and weights: what does not depend on the batch.
absl::Status OpenModel(const EngineConfig& config, EngineParts& parts) {
  RETURN_IF_ERROR(CheckLimits(config));
  ASSIGN_OR_RETURN(parts.model.config, LoadModelConfig(config.model_folder));
  ASSIGN_OR_RETURN(parts.model.generation, LoadGenerationConfig(config.model_folder));
  ASSIGN_OR_RETURN(parts.model.dtype, ServingDType(config, parts.model.config));
  ASSIGN_OR_RETURN(parts.model.max_model_len, ServingModelLen(config, parts.model.config));
  ASSIGN_OR_RETURN(const MemoryInfo memory, parts.backend->device().Memory());
  parts.ledger.total_bytes = memory.total_bytes;
  parts.ledger.available_bytes = parts.ledger.free_bytes = memory.free_bytes;
  const WeightsOptions options = {.format = config.load_format,
                                  .dtype = parts.model.dtype,
                                  .seed = config.seed,
                                  .num_threads = config.num_threads};
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
absl::Status TuneProducts(const EngineConfig& config, EngineParts& parts) {
  if (!config.tune_products) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, parts.backend->device().CreateStream());
  return parts.backend->ops().TuneLinear(
      *stream, LinearProducts(*parts.weights, parts.model.config.num_layers,
                              config.max_num_batched_tokens, config.max_num_seqs));
}

// Activations, sampling state and the KV cache in what memory is left.
absl::Status OpenRunner(const EngineConfig& config, EngineParts& parts) {
  const ModelConfig& model = parts.model.config;
  const KvLayout layout = MakeKvLayout(model, parts.model.dtype, config.block_size);
  const AttentionGeometry geometry =
      MakeGeometry(model, parts.model.dtype, config.block_size, /*sliding_window=*/0);
  ASSIGN_OR_RETURN(AttentionBackend * attention,
                   OpenAttention(*parts.backend, config, geometry, layout));
  const ModelRunnerConfig runner = {
      .limits = MakeBatchLimits(config, layout, parts.model.max_model_len),
      .max_model_len = parts.model.max_model_len,
      .vocab_size = model.vocab_size,
      .attention = geometry,
      .trace = config.step_trace,
      .use_graphs = parts.backend->device().info().use_graphs && !config.enforce_eager};
  const DecoderLimits limits = {.max_num_tokens = config.max_num_batched_tokens,
                                .max_logit_rows = config.max_num_seqs,
                                .max_model_len = parts.model.max_model_len};
  ASSIGN_OR_RETURN(parts.decoder, Advise(Decoder::Create(*parts.backend, model, *parts.weights,
                                                         *attention, parts.model.dtype, limits),
                                         kSmallerSteps));
  parts.ledger.Add("activations", parts.decoder->size_bytes());
  ASSIGN_OR_RETURN(MemoryInfo memory, parts.backend->device().Memory());
  memory.free_bytes -= ModelRunner::BytesFor(runner) + LateBytes(*parts.backend);
  ASSIGN_OR_RETURN(parts.model.num_kv_blocks,
                   PlanNumBlocks(config, layout, parts.model.max_model_len, memory));
  parts.model.block_size = config.block_size;
  ASSIGN_OR_RETURN(
      KvArena arena,
      Advise(KvArena::Allocate(parts.backend->device(), layout, parts.model.num_kv_blocks),
             "lower --gpu-memory-utilization or --kv-cache-memory-bytes"));
  parts.kv_arena = std::make_unique<KvArena>(std::move(arena));
  parts.stages.End("memory");
  ASSIGN_OR_RETURN(parts.runner,
                   Advise(ModelRunner::Create(*parts.backend, *attention, *parts.decoder,
                                              *parts.kv_arena, runner),
                          "lower --gpu-memory-utilization, --kv-cache-memory-bytes, --max-num-seqs "
                          "or --max-num-batched-tokens"));
  parts.ledger.Add("KV cache", parts.kv_arena->size_bytes());
  parts.ledger.Add("batch and sampling state", parts.runner->size_bytes());
  return CloseLedger(*parts.backend, parts.ledger);
}

}  // namespace

absl::StatusOr<int64_t> PlanNumBlocks(const EngineConfig& config, const KvLayout& layout,
                                      int64_t max_model_len, const MemoryInfo& memory) {
  int64_t bytes = config.kv_cache_bytes;
  if (bytes == 0 && config.device == DeviceKind::kCpu) {
    bytes = std::min(kMaxCpuKvBytes, memory.free_bytes / 2);
  } else if (bytes == 0) {
    const auto budget = static_cast<int64_t>(static_cast<double>(memory.total_bytes) *
                                             config.gpu_memory_utilization);
    bytes = budget - (memory.total_bytes - memory.free_bytes);
  }
  const int64_t num_blocks = layout.NumBlocksIn(std::max<int64_t>(bytes, 0));
  const int64_t needed = CeilDiv<int64_t>(max_model_len, layout.block_size) *
                         static_cast<int64_t>(layout.groups.size());
  if (num_blocks >= needed) return num_blocks;
  return absl::ResourceExhaustedError(absl::StrCat(
      "the KV cache would get ", std::max<int64_t>(bytes, 0) / kMiB, " MiB, ", num_blocks,
      " blocks; one sequence of ", max_model_len, " tokens needs ", needed, " blocks, ",
      needed * layout.BlockBytes() / kMiB,
      " MiB: lower --max-model-len, or give more with --kv-cache-memory-bytes or a higher "
      "--gpu-memory-utilization"));
}

absl::StatusOr<std::unique_ptr<EngineParts>> OpenEngineParts(const EngineConfig& config,
                                                             std::unique_ptr<Backend> backend) {
  auto parts = std::make_unique<EngineParts>();
  parts->backend = std::move(backend);
  RETURN_IF_ERROR(AddLedger(OpenModel(config, *parts), *parts));
  parts->stages.End("weights");
  RETURN_IF_ERROR(AddLedger(Advise(TuneProducts(config, *parts), kSmallerSteps), *parts));
  parts->stages.End("tuning");
  RETURN_IF_ERROR(AddLedger(OpenRunner(config, *parts), *parts));
  parts->stages.End("runner");
  parts->scheduler =
      std::make_unique<Scheduler>(MakeSchedulerConfig(config, parts->model.max_model_len),
                                  MakeBlockManagerConfig(config, *parts));
  return parts;
}

}  // namespace quire
