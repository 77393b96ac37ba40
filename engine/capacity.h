// Capacity: what a device will hold of a model and its streams, without loading it: the plan of a
// start (start_plan.h), carried on to what the memory ledger will say. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine_config.h"
#include "engine/engine_status.h"
#include "engine/memory_plan.h"
#include "kernels/device_facts.h"
#include "kvcache/kv_layout.h"

namespace quire {

// Layers that keep alike.
struct LayerKv {
  KvSpec spec;
  int64_t num_layers = 0;
  int64_t bytes_per_token = 0;  // of all of them, with the room that blocks leave unused
};

// Layers that keep a state of each sequence, however long it is.
struct StateCapacity {
  int64_t num_layers = 0;
  int64_t bytes_per_sequence = 0;  // of all of them
  int64_t num_snapshots = 0;       // beside those of running sequences
};

struct StreamCapacity {
  int64_t num_tokens = 0;  // of each stream, prompt and answer
  int64_t kv_bytes = 0;    // that each holds while it decodes, beside its states
  // Whose cache and states are there at once, while one of them reads its prompt.
  int64_t num_streams = 0;
};

struct Capacity {
  ModelInfo model;                    // as the engine will report it
  std::vector<FormatBytes> weights;   // how they are kept
  std::optional<int64_t> file_bytes;  // of the weights' files, whose headers fit; unset: not there
  MemoryLedger ledger;
  std::vector<LayerKv> kv;
  StateCapacity states;
  int64_t num_layers_without_kv = 0;  // those that read an earlier layer's
  int64_t block_bytes = 0;
  std::vector<StreamCapacity> streams;  // by length, the longest is the model's
};

// Reads config.json, generation_config.json and, unless weights are dummies or their files are
// missing, the headers of those and the orders of quantized weights' columns. Errors as in
// PlanStart, PlanContext and Weights::CheckFiles.
absl::StatusOr<Capacity> PlanCapacity(const EngineConfig& config, const DeviceFacts& device);

}  // namespace quire
