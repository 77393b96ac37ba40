// The table that `--attention-backend auto` follows: each path's time by phase, type of cache, head
// size, batch and length.
#pragma once

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/kernels/graph_timer.h"

namespace quire::bench {

// Prints a row for each case and appends it to `rows`. What does not fit the free memory is left
// out by name.
absl::Status MeasureAttentionTable(GraphTimer& timer, uint64_t seed, nlohmann::ordered_json* rows);

// Likewise of decodes that share a prefix: read with each of them, and read once.
absl::Status MeasureCascade(GraphTimer& timer, uint64_t seed, nlohmann::ordered_json* rows);

// Likewise of prompts: new tokens read from the cache, and read where a gemm leaves them.
absl::Status MeasureRagged(GraphTimer& timer, uint64_t seed, nlohmann::ordered_json* rows);

}  // namespace quire::bench
