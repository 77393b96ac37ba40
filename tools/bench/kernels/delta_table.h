// GatedDelta of one layer of a published model: decodes beside reading and writing their states
// once, prompts beside attention of a layer of the same model.
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
std::vector<std::string> DeltaCaseNames(DeviceKind device);

// Prints a row for each case whose name has `cases` and appends it to `rows`. States and inputs are
// cold. The bytes' limit is that of a copy.
absl::Status MeasureGatedDelta(GraphTimer& timer, uint64_t seed, const std::string& cases,
                               const Limits& limits, nlohmann::ordered_json* rows);

}  // namespace quire::bench
