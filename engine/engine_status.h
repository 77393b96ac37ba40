// Snapshots that leave the engine's thread as values: status, model information, memory ledger.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/generation_config.h"
#include "engine/model/config/model_config.h"
#include "scheduler/scheduler.h"

namespace quire {

struct EngineStatus {
  SchedulerStats scheduler;
  uint64_t num_steps = 0;
  int64_t num_prompt_tokens = 0;  // computed since start (prefix hits are not computed)
  int64_t num_generated_tokens = 0;
  bool admitting = true;
  bool failed = false;
};

struct ModelInfo {
  ModelConfig config;
  GenerationConfig generation;
  DType dtype = DType::kBF16;
  DType kv_cache_dtype = DType::kBF16;
  int64_t max_model_len = 0;
  int64_t num_parameters = 0;
  int64_t matrix_bytes = 0;  // what gemms read of the weights
  int64_t num_kv_blocks = 0;
  int32_t block_size = 0;
  int64_t state_bytes = 0;             // of one sequence's recurrent states
  int64_t max_num_seqs = 0;            // that run at a time
  int64_t max_num_batched_tokens = 0;  // of one step
  std::string device_name;
};

// The names of the ledger's entries.
inline constexpr char kWeightsEntry[] = "weights";
inline constexpr char kActivationsEntry[] = "activations";
inline constexpr char kStateEntry[] = "batch and sampling state";
inline constexpr char kRecurrentEntry[] = "recurrent states";
inline constexpr char kKvCacheEntry[] = "KV cache";
inline constexpr char kLateEntry[] = "graphs, plans, code, rounding";

// Where memory went at start, in the order it was allocated. The memory that was in use before, the
// entries and the free memory add up to the device's memory.
struct MemoryLedger {
  std::vector<std::pair<std::string, int64_t>> entries;  // what, bytes
  int64_t total_bytes = 0;                               // of the device
  int64_t available_bytes = 0;                           // when the engine was opened
  int64_t free_bytes = 0;                                // now

  void Add(std::string what, int64_t bytes) { entries.emplace_back(std::move(what), bytes); }
  // One line per entry, aligned, in MiB.
  std::string ToString() const;
  // The same in one line, without the unit, MiB.
  std::string ToLine() const;
};

}  // namespace quire
