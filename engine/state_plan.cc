#include "engine/state_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/base/types.h"

namespace quire {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// One is found while the next is written.
constexpr int64_t kMinSnapshots = 2;

int64_t DefaultBytes(const EngineConfig& config, int64_t left_bytes) {
  return std::max<int64_t>(0, left_bytes) / (config.device == DeviceKind::kCuda ? 2 : 4);
}

}  // namespace

DType ChooseStateDType(const EngineConfig& config, const ModelConfig& model) {
  if (config.state_dtype) return *config.state_dtype;
  return config.device == DeviceKind::kCpu ? DType::kF32 : model.state_dtype;
}

absl::StatusOr<StatePlan> PlanStates(const EngineConfig& config, const StepLimits& step,
                                     int64_t max_model_len, int64_t slot_bytes,
                                     int64_t left_bytes) {
  const int64_t given_bytes = config.state_cache_memory_bytes;
  const int64_t bytes = given_bytes > 0 ? given_bytes : DefaultBytes(config, left_bytes);
  const int64_t num_spare = config.enable_prefix_caching ? kMinSnapshots : 0;
  StatePlan plan = {.step = step};
  if (config.max_num_seqs == 0) {
    plan.step.max_num_seqs = std::clamp<int64_t>(bytes / 3 * 2 / slot_bytes, 1, step.max_num_seqs);
  }
  const int64_t most_bytes = given_bytes > 0 ? given_bytes : left_bytes;
  const int64_t needed_bytes = (plan.step.max_num_seqs + num_spare) * slot_bytes;
  if (most_bytes < needed_bytes && (given_bytes > 0 || config.max_num_seqs > 0)) {
    const int64_t num_seqs = most_bytes / slot_bytes - num_spare;
    return absl::OutOfRangeError(absl::StrCat(
        given_bytes > 0 ? "--state-cache-memory-bytes: " : "--max-num-seqs: ",
        "recurrent states of ", plan.step.max_num_seqs, " running sequences and ", num_spare,
        " snapshots take ", needed_bytes, " bytes (", CeilDiv(slot_bytes, kMiB), " MiB each), ",
        most_bytes, given_bytes > 0 ? " are given" : " are left beside weights and steps",
        num_seqs > 0 ? absl::StrCat("; use --max-num-seqs ", num_seqs, " or less") : ""));
  }
  if (plan.step.max_num_seqs < step.max_num_seqs) {
    plan.lowered = absl::StrCat(
        "at most ", plan.step.max_num_seqs, " sequences run at a time instead of ",
        step.max_num_seqs, ": each has ", CeilDiv(slot_bytes, kMiB),
        " MiB of recurrent states; --max-num-seqs and --state-cache-memory-bytes change that");
  }
  if (num_spare > 0) {
    // A sequence may have snapshots at the end of its prompt, where it parts from others, and at
    // every snapshot_interval tokens.
    const int64_t most = plan.step.max_num_seqs * (2 + max_model_len / config.snapshot_interval);
    plan.num_snapshots =
        std::max(num_spare, std::min(most, bytes / slot_bytes - plan.step.max_num_seqs));
  }
  return plan;
}

}  // namespace quire
