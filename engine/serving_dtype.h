// ChooseServingDType: what a model is computed in. A pure function; any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace quire {

struct ServingDType {
  DType dtype;      // of weights, activations and KV cache
  std::string why;  // where it is not the checkpoint's: a phrase for the log
};

// `asked` is --dtype; without it the checkpoint's dtype, or bfloat16 where the device does not
// compute in that. OUT_OF_RANGE, saying what to pass instead, when the device does not compute in
// what was asked for.
absl::StatusOr<ServingDType> ChooseServingDType(std::optional<DType> asked, DType checkpoint,
                                                const DeviceInfo& device);

}  // namespace quire
