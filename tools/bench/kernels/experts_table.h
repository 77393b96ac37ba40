// The operations of mixtures of experts, in the shapes of published models, beside reading what
// each call must read once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/kernels/graph_timer.h"
#include "tools/bench/kernels/op_table.h"

namespace quire::bench {

// The mixtures, in the order in which they are measured.
std::vector<std::string> MixtureNames();

// Prints three rows, of Route, ExpertsGatedLinear and ExpertsLinear, for each number of tokens of
// each mixture whose name has `cases`, and appends them to `rows`. Logits are random, so that
// tokens spread over the experts; `token_counts` may be empty: a list for the device. Bytes are
// those of the experts that some token chose.
absl::Status MeasureExperts(GraphTimer& timer, uint64_t seed, const std::string& cases,
                            const std::vector<int64_t>& token_counts, const Limits& limits,
                            nlohmann::ordered_json* rows);

}  // namespace quire::bench
