// ModuleTensors: the tensors of one module in a checkpoint, found by its scheme and checked, before
// any of their data is read. Plain values; any thread.
#pragma once

#include <array>
#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/quantization/weight_scheme.h"

namespace quire {

// By plane; null if the module has no such tensor.
using ModuleTensors = std::array<const Checkpoint::Entry*, kNumPlanes>;

// INVALID_ARGUMENT when a tensor is missing or has another dtype or shape, or when the weight
// cannot be in the scheme at all. The error names the tensor and what is expected of it.
absl::StatusOr<ModuleTensors> FindModuleTensors(const WeightScheme& scheme,
                                                const ModuleShape& shape, absl::string_view module,
                                                const Checkpoint& checkpoint);

// The same with a function that looks up a tensor by name, and its file for errors.
using FindTensor = absl::FunctionRef<const Checkpoint::Entry*(absl::string_view)>;
absl::StatusOr<ModuleTensors> FindModuleTensors(const WeightScheme& scheme,
                                                const ModuleShape& shape, absl::string_view module,
                                                FindTensor find);

}  // namespace quire
