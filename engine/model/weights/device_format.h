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

// Blocks of rows get a scale for each row; integers of 2 and 3 bits become those of 4, of 5 to 7
// those of 8. kFloat of a scheme that is not quantized.
LinearFormat DeviceFormatOf(const WeightScheme& scheme);

// Of floats that are quantized while they are loaded.
LinearFormat DeviceFormatOf(LoadQuantization quantization);

// Of a matrix: its scheme's, or of floats what `quantization` makes of them.
LinearFormat DeviceFormatOf(const MatrixPlan& matrix, LoadQuantization quantization);

// Gives each matrix the scheme that its parts have in common. Errors as in
// QuantizationConfig::FindShared.
absl::Status SetSchemes(const QuantizationConfig& quantization, WeightPlan* plan);

}  // namespace quire
