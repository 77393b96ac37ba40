#include "engine/memory_plan.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/base/types.h"
#include "kvcache/block_manager.h"

namespace quire {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
// A GPU with less memory has a better use for what 1,024 sequences' logits and counts take.
constexpr int64_t kLargeGpuBytes = 64 * kGiB;
// Stays free: on a GPU for the code of kernels that are first used while serving, on the CPU for
// the tokenizer, the streams and whatever else the process and the machine need.
constexpr int64_t kGpuReserveBytes = 128 * kMiB;
// A context that is shorter than this is no use to anybody.
constexpr int64_t kMinContext = 256;

int64_t Blocks(const KvLayout& layout, int64_t num_tokens, int64_t max_step_tokens) {
  std::vector<KvSpec> groups;
  groups.reserve(layout.groups.size());
  for (const KvLayerGroup& group : layout.groups) groups.push_back({group.spec.sliding_window});
  // Two steps can be in flight before the first one's window is released.
  return MaxBlocksFor(groups, layout.block_size, num_tokens, 2 * max_step_tokens);
}

// The planning of one call.
class Planner {
 public:
  Planner(const EngineConfig& config, const KvDemand& demand, const MemoryInfo& memory,
          absl::FunctionRef<int64_t(int64_t)> other_bytes)
      : config_(config),
        demand_(demand),
        available_bytes_(UsableBytes(config, memory)),
        other_bytes_(other_bytes) {}

  absl::StatusOr<KvPlan> Plan() const {
    KvPlan plan;
    plan.max_model_len = demand_.max_model_len;
    if (!Fits(demand_.max_model_len)) {
      plan.max_model_len = LongestContext();
      const int64_t least = std::min(kMinContext, demand_.max_model_len);
      if (!demand_.may_be_lowered || plan.max_model_len < least) return TooLittle(plan);
      plan.lowered = absl::StrCat("the context is ", plan.max_model_len, " tokens instead of ",
                                  demand_.max_model_len, ": ", Shortage(demand_.max_model_len),
                                  "; --max-model-len sets it without this warning");
    }
    if (MaxBytes(plan.max_model_len) < config_.kv_cache_memory_bytes) {
      return TooMuch(plan.max_model_len);
    }
    plan.num_blocks = NumBlocks(plan.max_model_len);
    return plan;
  }

 private:
  // The most bytes that the cache may have with this context.
  int64_t MaxBytes(int64_t max_model_len) const {
    const int64_t left = available_bytes_ - other_bytes_(max_model_len);
    return std::max<int64_t>(0, config_.kv_cache_memory_bytes > 0
                                    ? std::min(config_.kv_cache_memory_bytes, left)
                                    : left);
  }
  int64_t MaxBlocks(int64_t max_model_len) const {
    return demand_.layout.NumBlocksIn(MaxBytes(max_model_len));
  }
  bool Fits(int64_t max_model_len) const {
    return MaxBlocks(max_model_len) >= BlocksPerSequence(demand_, max_model_len);
  }

  int64_t NumBlocks(int64_t max_model_len) const {
    const int64_t most = MaxBlocks(max_model_len);
    if (config_.kv_cache_memory_bytes > 0 || config_.device == DeviceKind::kCuda) return most;
    const int64_t one = BlocksPerSequence(demand_, max_model_len);
    return std::clamp(most / 2, one, std::min(most, one * demand_.step.max_num_seqs));
  }

  // Returns the tokens of whole blocks; 0 when no block fits. A context longer than one that does
  // not fit does not fit either.
  int64_t LongestContext() const {
    const int64_t block_size = demand_.layout.block_size;
    int64_t fits = 0, too_many = CeilDiv(demand_.max_model_len, block_size);
    while (too_many - fits > 1) {
      const int64_t middle = (fits + too_many) / 2;
      (Fits(middle * block_size) ? fits : too_many) = middle;
    }
    return fits * block_size;
  }

  std::string Shortage(int64_t max_model_len) const {
    const int64_t needed = BlocksPerSequence(demand_, max_model_len) * demand_.layout.BlockBytes();
    if (available_bytes_ <= other_bytes_(0)) {
      return absl::StrCat("the model does not fit: ", CeilDiv(other_bytes_(0), kMiB),
                          " MiB go to weights and steps and ", available_bytes_ / kMiB,
                          " MiB are usable");
    }
    std::string text = absl::StrCat("one sequence of ", max_model_len, " tokens needs ",
                                    CeilDiv(needed, kMiB), " MiB of KV cache and ",
                                    MaxBytes(max_model_len) / kMiB, " MiB are there for it");
    const int64_t other_bytes = other_bytes_(max_model_len);
    if (other_bytes > 0) {
      absl::StrAppend(&text, " (usable are ", available_bytes_ / kMiB, " MiB, of which ",
                      CeilDiv(other_bytes, kMiB), " MiB go to weights and steps)");
    }
    return text;
  }

  absl::Status TooMuch(int64_t max_model_len) const {
    return absl::ResourceExhaustedError(absl::StrCat(
        "--kv-cache-memory-bytes asks for ", config_.kv_cache_memory_bytes, " bytes and ",
        MaxBytes(max_model_len), " are free for the KV cache: use --kv-cache-memory-bytes ",
        MaxBytes(max_model_len), " or less"));
  }

  absl::Status TooLittle(const KvPlan& longest) const {
    std::vector<std::string> cures;
    if (longest.max_model_len > 0 && longest.max_model_len < demand_.max_model_len) {
      cures.push_back(absl::StrCat("use --max-model-len ", longest.max_model_len, " or less"));
    }
    if (config_.kv_cache_memory_bytes > 0 &&
        MaxBytes(demand_.max_model_len) == config_.kv_cache_memory_bytes) {
      const int64_t needed =
          BlocksPerSequence(demand_, demand_.max_model_len) * demand_.layout.BlockBytes();
      cures.push_back(absl::StrCat("give at least --kv-cache-memory-bytes ", needed));
    } else if (config_.device == DeviceKind::kCuda && config_.gpu_memory_utilization < 1) {
      cures.push_back("raise --gpu-memory-utilization");
    }
    cures.push_back("serve a smaller model, or use a machine with more memory");
    std::string advice;
    for (const std::string& cure : cures) {
      absl::StrAppend(&advice, advice.empty() ? "" : ", or ", cure);
    }
    return absl::ResourceExhaustedError(
        absl::StrCat(Shortage(demand_.max_model_len), ": ", advice));
  }

  const EngineConfig& config_;
  const KvDemand& demand_;
  const int64_t available_bytes_;
  const absl::FunctionRef<int64_t(int64_t)> other_bytes_;
};

}  // namespace

int64_t UsableBytes(const EngineConfig& config, const MemoryInfo& memory) {
  if (config.kv_cache_memory_bytes > 0) return memory.free_bytes;  // who gives a size knows better
  if (config.device == DeviceKind::kCpu) {
    // 512 MiB, or a twentieth of what is free if that is more; of little memory, a quarter.
    const int64_t reserve_bytes =
        std::max(std::min(512 * kMiB, memory.free_bytes / 4), memory.free_bytes / 20);
    return memory.free_bytes - reserve_bytes;
  }
  const auto budget =
      static_cast<int64_t>(static_cast<double>(memory.total_bytes) * config.gpu_memory_utilization);
  return std::min(budget - (memory.total_bytes - memory.free_bytes),
                  memory.free_bytes - kGpuReserveBytes);
}

StepLimits ChooseStepLimits(const EngineConfig& config, int64_t device_bytes) {
  const bool cuda = config.device == DeviceKind::kCuda;
  const int64_t num_seqs = !cuda ? 64 : device_bytes >= kLargeGpuBytes ? 1024 : 256;
  const int64_t num_tokens = cuda ? 8192 : 2048;
  StepLimits limits = {config.max_num_seqs, config.max_num_batched_tokens};
  if (limits.max_num_seqs == 0) {
    limits.max_num_seqs = limits.max_num_batched_tokens == 0
                              ? num_seqs
                              : std::min(num_seqs, limits.max_num_batched_tokens);
  }
  if (limits.max_num_batched_tokens == 0) {
    limits.max_num_batched_tokens = std::max(num_tokens, limits.max_num_seqs);
  }
  return limits;
}

int64_t BlocksPerSequence(const KvDemand& demand, int64_t max_model_len) {
  return Blocks(demand.layout, max_model_len, demand.step.max_num_batched_tokens);
}

int64_t BlocksWhileDecoding(const KvDemand& demand, int64_t num_tokens) {
  return Blocks(demand.layout, num_tokens, 1);
}

absl::StatusOr<KvPlan> PlanKvCache(const EngineConfig& config, const KvDemand& demand,
                                   const MemoryInfo& memory,
                                   absl::FunctionRef<int64_t(int64_t)> other_bytes) {
  return Planner(config, demand, memory, other_bytes).Plan();
}

}  // namespace quire
