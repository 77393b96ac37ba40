// Gemms of a model's layers by the weights' format and the number of rows, beside the same in
// bfloat16 and the time to read the weight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/config/model_config.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/kernels/graph_timer.h"
#include "tools/bench/kernels/op_table.h"

namespace quire::bench {

// All formats that there are rows of; a device measures those that it keeps.
std::vector<std::string> FormatNames();

struct FormatChoice {
  std::string cases;                // formats whose names have this
  std::vector<int64_t> row_counts;  // of x; empty: from 1 to 64, on a GPU to 4,096
};

// Prints a line for each shape, format and number of rows and appends it to `rows`. The weights are
// cold.
absl::Status MeasureFormats(GraphTimer& timer, const ModelConfig& model, uint64_t seed,
                            const FormatChoice& choice, const Limits& limits,
                            nlohmann::ordered_json* rows);

}  // namespace quire::bench
