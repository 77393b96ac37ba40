// Sampling of batches, by kinds of parameters and of distributions, beside reading the logits once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/kernels/graph_timer.h"
#include "tools/bench/kernels/op_table.h"

namespace quire::bench {

// The cases of a kind of device, in the order in which they are measured.
std::vector<std::string> SamplingCaseNames(DeviceKind device, int64_t vocab_size);

// Prints a row for each case whose name has `cases` and appends it to `rows`. Logits are cold: in
// a step of many rows most of them are not in a cache either.
absl::Status MeasureSampling(GraphTimer& timer, int64_t vocab_size, uint64_t seed,
                             const std::string& cases, const Limits& limits,
                             nlohmann::ordered_json* rows);

}  // namespace quire::bench
