// How a linear operation of a checkpoint's scheme is kept on a device that has gemms for it.
// Plain functions; any thread.
#pragma once

#include "absl/status/status.h"
#include "engine/model/config/model_config.h"
#include "engine/model/quantization/quantization_config.h"
#include "engine/model/quantization/weight_scheme.h"
#include "engine/model/weights/weight_plan.h"
#include "kernels/weight_format.h"

namespace quire {

// Blocks of rows get a scale for each row. Integers of 2 and 3 bits become integers of 4 bits;
// integers of 5 to 7 bits become integers of 8 bits. kFloat for a scheme that is not quantized.
LinearFormat DeviceFormatOf(const WeightScheme& scheme);

// The format of floats that are quantized while they are loaded.
LinearFormat DeviceFormatOf(LoadQuantization quantization);

// The format of a matrix: its scheme's format; for floats, the format that `quantization` gives
// them.
LinearFormat DeviceFormatOf(const MatrixPlan& matrix, LoadQuantization quantization);

// Gives each matrix the scheme that its parts have in common. Errors as in
// QuantizationConfig::FindShared.
absl::Status SetSchemes(const QuantizationConfig& quantization, WeightPlan* plan);

}  // namespace quire
