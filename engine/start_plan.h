// StartPlan: the decisions of a start before it allocates anything or reads weights (except the
// order of quantized columns). They follow from the model's files, the settings and the device.
// Both a start and --plan use them. Plain values and functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/engine_config.h"
#include "engine/engine_status.h"
#include "engine/memory_plan.h"
#include "engine/model/decoder.h"
#include "engine/runner/model_runner.h"
#include "kernels/device_facts.h"
#include "kvcache/kv_layout.h"
#include "kvcache/state_arena.h"

namespace quire {

struct StartPlan {
  DeviceKind device = DeviceKind::kCpu;
  ModelInfo model;  // without what only loading tells
  StepLimits step = {};
  KvLayout kv_layout;
  StateLayout state_layout;     // empty: no layer keeps a state
  int64_t num_state_slots = 0;  // of running sequences, and of snapshots
  Weights::Sizes weights;       // at most
  bool counts_experts = false;
  // Prefixes that decodes share are read once if that saves reading this many tokens; 0: never.
  int64_t min_prefix_tokens = 0;
  // On a GPU what graphs, plans and the code of kernels usually take: an allowance, until they are
  // there and are measured.
  int64_t late_bytes = 0;
};

// NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED: the model's files; OUT_OF_RANGE: a setting that this
// model or device does not allow, named by its flag.
absl::StatusOr<StartPlan> PlanStart(const EngineConfig& config, const DeviceFacts& device);

// The memory that steps take beside weights and KV cache, for a served length.
struct StepMemory {
  int64_t activations_bytes = 0;
  int64_t state_bytes = 0;   // metadata, block tables, sampling state
  int64_t pinned_bytes = 0;  // of the host, for steps in flight
};
StepMemory StepMemoryFor(const StartPlan& plan, int64_t max_model_len);
DecoderLimits DecoderLimitsFor(const StartPlan& plan, int64_t max_model_len);
// Only sizes.
ModelRunnerConfig RunnerSizes(const StartPlan& plan, int64_t max_model_len);

// The bytes of the device that weights, steps, recurrent states and late comers will take. Pinned
// memory counts as the CPU's own.
int64_t BytesBesideKv(const StartPlan& plan, DeviceKind device, int64_t max_model_len);

// How long a context and how large a cache, beside `other_bytes`, of the memory that is free.
absl::StatusOr<KvPlan> PlanContext(const EngineConfig& config, const StartPlan& plan,
                                   const MemoryInfo& memory,
                                   absl::FunctionRef<int64_t(int64_t)> other_bytes);

}  // namespace quire
