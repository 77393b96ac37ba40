#include "engine/start_plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/attention_shapes.h"
#include "engine/request_check.h"
#include "engine/runner/cascade_plan.h"
#include "engine/serving_dtype.h"
#include "engine/state_plan.h"
#include "kernels/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace quire {

namespace {

constexpr int64_t kUsualGpuLateBytes = int64_t{512} << 20;

absl::StatusOr<DType> ChooseDType(const EngineConfig& config, const ModelConfig& model,
                                  const DeviceInfo& device) {
  ASSIGN_OR_RETURN(const ServingDType serving,
                   ChooseServingDType(config.dtype, model.dtype, device));
  if (serving.dtype == model.dtype) return serving.dtype;
  spdlog::info("a checkpoint in {} is computed in {}, {}", DTypeName(model.dtype),
               DTypeName(serving.dtype), serving.why);
  return serving.dtype;
}

absl::StatusOr<int64_t> ServingModelLen(const EngineConfig& config, const ModelConfig& model) {
  // Dynamic rope changes every position once it stretches: only who asks for length gets it.
  if (config.max_model_len == 0 && model.ropes.front().type == RopeType::kDynamic) {
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

// Says where a checkpoint decides, or would.
DType ServingKvCacheDType(const EngineConfig& config, const ModelInfo& model) {
  const DType dtype = ChooseKvCacheDType(config.kv_cache_dtype, model.config, model.dtype);
  if (config.kv_cache_dtype) return dtype;
  const KvCacheScheme& scheme = model.config.quantization.kv_cache();
  if (scheme.is_float8) {
    spdlog::info("the KV cache is in {}, as {} says; --kv-cache-dtype bfloat16 keeps 16 bits",
                 DTypeName(dtype), scheme.key);
  } else if (!scheme.not_served.empty()) {
    spdlog::warn("{}: a KV cache in {} is not served; it is in {}", scheme.key, scheme.not_served,
                 DTypeName(dtype));
  }
  return dtype;
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

void WarnOfExpanded(const std::vector<std::string>& modules, DType dtype, const char* why) {
  if (modules.empty()) return;
  const std::string more =
      modules.size() == 1 ? "" : absl::StrCat(" and ", modules.size() - 1, " more");
  spdlog::warn("quantized weights that are expanded to {}: {}{}: {}", DTypeName(dtype), modules[0],
               more, why);
}

// For quantized weights, the order of columns is in the checkpoint, if there is one.
absl::StatusOr<Weights::Sizes> SizesOfWeights(const EngineConfig& config, const ModelInfo& model,
                                              const DeviceFacts& device) {
  std::optional<Checkpoint> checkpoint;
  if (model.config.quantization.quantized() && config.load_format == LoadFormat::kAuto) {
    absl::StatusOr<Checkpoint> opened = Checkpoint::Open(config.model_folder);
    if (!opened.ok() && !absl::IsNotFound(opened.status())) return opened.status();
    if (opened.ok()) checkpoint = *std::move(opened);
  }
  ASSIGN_OR_RETURN(Weights::Sizes sizes, Weights::SizesFor(device, model.config, model.dtype,
                                                           checkpoint ? &*checkpoint : nullptr));
  WarnOfExpanded(sizes.expanded_for_order, model.dtype,
                 "their columns' groups (g_idx) are of unequal size, or not alike in modules that "
                 "are computed as one");
  WarnOfExpanded(sizes.expanded_for_gemms, model.dtype,
                 "this device has no gemms for their format");
  return sizes;
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

// Why no prefix is read once for several decodes; empty if that can be.
std::string WhyNoCascade(const EngineConfig& config,
                         absl::Span<const AttentionGeometry> geometries) {
  if (!config.enable_prefix_caching) return "without prefix caching none is shared";
  if (geometries.size() == 1) return WhyNoCascade(geometries[0]);
  return absl::StrCat("its layers keep keys and values in ", geometries.size(),
                      " ways, each with block tables of its own");
}

// 0 on a CPU by default: its cores do not wait for memory when they read a prefix.
int64_t MinPrefixTokens(const EngineConfig& config, const StartPlan& plan) {
  if (config.min_prefix_tokens == 0) return 0;  // the user who switched it off knows
  const bool is_cuda = config.device == DeviceKind::kCuda;
  const std::vector<AttentionGeometry> geometries =
      MakeGeometries(plan.model.config, plan.kv_layout, plan.model.dtype);
  if (const std::string why = WhyNoCascade(config, geometries); !why.empty()) {
    if (is_cuda) {
      spdlog::info("each sequence reads its whole prefix (no cascade attention): {}", why);
    }
    return 0;
  }
  if (config.min_prefix_tokens.has_value()) return *config.min_prefix_tokens;
  if (!is_cuda) return 0;
  const AttentionGeometry& geometry = geometries[0];
  // Bytes of one layer. Reading more than these takes longer than two levels and their merge
  // (docs/lab/attention.md, "Shared prefixes").
  constexpr int64_t kMinBytes = int64_t{192} << 20;
  return kMinBytes / (geometry.num_kv_heads * (geometry.k_head_dim + geometry.v_head_dim) *
                      DTypeBytes(geometry.kv_dtype));
}

absl::Status CheckStates(const EngineConfig& config, const ModelConfig& model) {
  if (config.snapshot_interval % kSnapshotGrid != 0) {
    return absl::OutOfRangeError(absl::StrCat("--mamba-block-size: ", config.snapshot_interval,
                                              " is not a multiple of ", kSnapshotGrid));
  }
  if (!HasState(model) && (config.state_dtype || config.state_cache_memory_bytes > 0)) {
    return absl::OutOfRangeError(
        absl::StrCat(config.state_dtype ? "--mamba-ssm-cache-dtype" : "--state-cache-memory-bytes",
                     ": no layer of this model keeps a recurrent state"));
  }
  if (config.device == DeviceKind::kCpu && config.state_dtype == DType::kBF16) {
    return absl::OutOfRangeError(
        "--mamba-ssm-cache-dtype: on the CPU recurrent states are float32, so that no answer "
        "depends on how its prompt is cut into steps");
  }
  return absl::OkStatus();
}

// How many states, and so how many sequences run at a time.
absl::Status AddStates(const EngineConfig& config, const MemoryInfo& memory, StartPlan* plan) {
  constexpr int64_t kUsualModelLen = 8192;  // longer contexts' tables are not worth a second look
  plan->model.state_bytes = BytesPerSlot(plan->state_layout);
  const int64_t left_bytes =
      UsableBytes(config, memory) -
      BytesBesideKv(*plan, config.device, std::min(plan->model.max_model_len, kUsualModelLen));
  ASSIGN_OR_RETURN(const StatePlan states, PlanStates(config, plan->step, plan->model.max_model_len,
                                                      plan->model.state_bytes, left_bytes));
  if (!states.lowered.empty()) spdlog::info("{}", states.lowered);
  plan->step = states.step;
  plan->num_state_slots = states.num_slots();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StartPlan> PlanStart(const EngineConfig& config, const DeviceFacts& device) {
  StartPlan plan;
  plan.device = config.device;
  plan.step = ChooseStepLimits(config, device.memory.total_bytes);
  RETURN_IF_ERROR(CheckLimits(plan.step));
  ModelInfo& model = plan.model;
  ASSIGN_OR_RETURN(model.config, LoadModelConfig(config.model_folder));
  ASSIGN_OR_RETURN(model.generation, LoadGenerationConfig(config.model_folder));
  ASSIGN_OR_RETURN(model.dtype, ChooseDType(config, model.config, device.info));
  ASSIGN_OR_RETURN(model.config.load_quantization,
                   ChooseLoadQuantization(config.quantization, model.config, model.dtype, device));
  ASSIGN_OR_RETURN(model.max_model_len, ServingModelLen(config, model.config));
  model.kv_cache_dtype = ServingKvCacheDType(config, model);
  RETURN_IF_ERROR(CheckKvCacheDType(config, model.kv_cache_dtype));
  ASSIGN_OR_RETURN(const std::vector<DType> kv_dtypes,
                   KvCacheDTypes(model.config, model.kv_cache_dtype,
                                 config.kv_cache_dtype_skip_layers, model.dtype));
  plan.kv_layout = MakeKvLayout(model.config, kv_dtypes, config.block_size);
  ASSIGN_OR_RETURN(plan.weights, SizesOfWeights(config, model, device));
  plan.min_prefix_tokens = MinPrefixTokens(config, plan);
  plan.late_bytes = config.device == DeviceKind::kCuda ? kUsualGpuLateBytes : 0;
  RETURN_IF_ERROR(CheckStates(config, model.config));
  plan.counts_experts = config.count_experts;
  if (config.count_experts && MostExperts(model.config) == 0) {
    return absl::OutOfRangeError(
        "--expert-load-metrics: this model is no mixture of experts; leave it out");
  }
  plan.state_layout =
      MakeStateLayout(model.config, model.dtype, ChooseStateDType(config, model.config));
  if (!plan.state_layout.empty()) RETURN_IF_ERROR(AddStates(config, device.memory, &plan));
  return plan;
}

DecoderLimits DecoderLimitsFor(const StartPlan& plan, int64_t max_model_len) {
  return {.max_num_batched_tokens = plan.step.max_num_batched_tokens,
          .max_logit_rows = plan.step.max_num_seqs,
          .max_model_len = max_model_len,
          .device = plan.device,
          .counts_experts = plan.counts_experts};
}

ModelRunnerConfig RunnerSizes(const StartPlan& plan, int64_t max_model_len) {
  ModelRunnerConfig config;
  config.limits = MakeBatchLimits(plan.step, plan.kv_layout, max_model_len);
  config.limits.min_prefix_tokens = plan.min_prefix_tokens;
  config.limits.snapshot_grid = plan.state_layout.empty() ? 0 : kSnapshotGrid;
  config.max_model_len = max_model_len;
  config.vocab_size = plan.model.config.vocab_size;
  return config;
}

StepMemory StepMemoryFor(const StartPlan& plan, int64_t max_model_len) {
  const ModelRunnerConfig runner = RunnerSizes(plan, max_model_len);
  return {.activations_bytes = Decoder::BytesFor(plan.model.config, plan.model.dtype,
                                                 DecoderLimitsFor(plan, max_model_len)),
          .state_bytes = ModelRunner::BytesFor(runner),
          .pinned_bytes = ModelRunner::PinnedBytesFor(runner)};
}

int64_t BytesBesideKv(const StartPlan& plan, DeviceKind device, int64_t max_model_len) {
  const StepMemory steps = StepMemoryFor(plan, max_model_len);
  return plan.weights.bytes + plan.late_bytes + steps.activations_bytes + steps.state_bytes +
         plan.num_state_slots * BytesPerSlot(plan.state_layout) +
         (device == DeviceKind::kCpu ? steps.pinned_bytes : 0);
}

absl::StatusOr<KvPlan> PlanContext(const EngineConfig& config, const StartPlan& plan,
                                   const MemoryInfo& memory,
                                   absl::FunctionRef<int64_t(int64_t)> other_bytes) {
  const KvDemand demand = {.layout = plan.kv_layout,
                           .step = plan.step,
                           .max_model_len = plan.model.max_model_len,
                           .may_be_lowered = config.max_model_len == 0};
  ASSIGN_OR_RETURN(KvPlan kv, PlanKvCache(config, demand, memory, other_bytes));
  if (!kv.lowered.empty()) spdlog::warn("{}", kv.lowered);
  return kv;
}

}  // namespace quire
