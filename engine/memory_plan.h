// How long a context and how large a KV cache a device's memory allows. Pure functions, asked twice
// in a start: before weights are read, with what they and the steps will take, so that what cannot
// work ends at once; and when everything else is in place, with the memory that is really left.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/engine_config.h"
#include "kernels/device.h"
#include "kvcache/kv_arena.h"

namespace quire {

struct StepLimits {
  int64_t max_num_seqs;
  int64_t max_num_batched_tokens;
};

// config.max_num_seqs and max_num_batched_tokens; where they are 0, what makes this device fastest.
// One that was given bounds the other.
StepLimits ChooseStepLimits(const EngineConfig& config, int64_t device_bytes);

// A context to plan for. `step` has no zeros.
struct KvDemand {
  KvLayout layout;
  StepLimits step;
  int64_t max_model_len = 0;    // wanted
  bool may_be_lowered = false;  // nobody asked for that length
};

struct KvPlan {
  int64_t max_model_len = 0;  // of the demand, or what one sequence finds room for
  int64_t num_blocks = 0;     // at least what one sequence of that length holds
  std::string lowered;        // empty, or why max_model_len is less than demanded: one line
};

// The most blocks that one sequence of this length holds at a time, while its prompt is computed.
int64_t BlocksPerSequence(const KvDemand& demand, int64_t max_model_len);
// And once it is: while it decodes.
int64_t BlocksWhileDecoding(const KvDemand& demand, int64_t num_tokens);

// How much of the device's memory may be used for weights, steps and caches.
int64_t UsableBytes(const EngineConfig& config, const MemoryInfo& memory);

// `other_bytes(max_model_len)`: what else will be taken of memory.free_bytes. On a GPU the cache
// gets what gpu_memory_utilization leaves; on the CPU half of what is free, as it is everybody's,
// at least one sequence and at most max_num_seqs of them; or config.kv_cache_memory_bytes.
// RESOURCE_EXHAUSTED, with the figures and what to change, when the context does not fit and may
// not be lowered, or not even a short one fits.
absl::StatusOr<KvPlan> PlanKvCache(const EngineConfig& config, const KvDemand& demand,
                                   const MemoryInfo& memory,
                                   absl::FunctionRef<int64_t(int64_t)> other_bytes);

}  // namespace quire
