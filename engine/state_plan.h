// How many sequences' recurrent states a device has room for: those of running sequences, and
// snapshots of prefixes for later ones. A pure function, used before weights are read.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/engine_config.h"
#include "engine/memory_plan.h"
#include "engine/model/config/model_config.h"

namespace quire {

struct StatePlan {
  StepLimits step;            // of the demand, max_num_seqs perhaps less
  int64_t num_snapshots = 0;  // slots beside the max_num_seqs ones of running sequences
  std::string lowered = {};   // empty, or why max_num_seqs is less: one line

  int64_t num_slots() const { return step.max_num_seqs + num_snapshots; }
};

// Of recurrent states: config.state_dtype, else what the model says, on the CPU float32.
DType ChooseStateDType(const EngineConfig& config, const ModelConfig& model);

// `slot_bytes`: the size of one sequence's states; `left_bytes`: the memory that weights and steps
// leave. States take config.state_cache_memory_bytes, or, if that is 0, half of left_bytes on a GPU
// and a quarter on the CPU. Running sequences take at most two thirds of this, unless
// config.max_num_seqs says how many they are. There are no more snapshots than the running
// sequences could have boundaries for if each had max_model_len tokens. OUT_OF_RANGE when the
// states of running sequences take more than is given or left.
absl::StatusOr<StatePlan> PlanStates(const EngineConfig& config, const StepLimits& step,
                                     int64_t max_model_len, int64_t slot_bytes, int64_t left_bytes);

}  // namespace quire
