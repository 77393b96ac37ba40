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

// Prints a line for each shape, format and number of rows and appends it to `rows`: of formats
// whose names have `cases`. The weights are cold.
absl::Status MeasureFormats(GraphTimer& timer, const ModelConfig& model, uint64_t seed,
                            const std::string& cases, const Limits& limits,
                            nlohmann::ordered_json* rows);

}  // namespace quire::bench
