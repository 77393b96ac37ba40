// What a model is computed in, and what its weights become for it. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/config/model_config.h"
#include "kernels/device.h"
#include "kernels/device_facts.h"

namespace quire {

struct ServingDType {
  DType dtype;      // of weights and activations
  std::string why;  // where it is not the checkpoint's: a phrase for the log
};

// `asked` is --dtype; without it the checkpoint's dtype, or bfloat16 where the device does not
// compute in that. OUT_OF_RANGE, saying what to pass instead, when the device does not compute in
// what was asked for.
absl::StatusOr<ServingDType> ChooseServingDType(std::optional<DType> asked, DType checkpoint,
                                                const DeviceInfo& device);

// The dtype of the KV cache. `asked` is --kv-cache-dtype; without it e4m3 if the checkpoint is made
// for that, else the activations' dtype.
DType ChooseKvCacheDType(std::optional<DType> asked, const ModelConfig& model, DType dtype);

// How the model's weights are quantized while they are loaded. `asked` is --quantization; a
// checkpoint that is in FP8 already needs nothing. OUT_OF_RANGE, saying what to pass instead, when
// the checkpoint is in another format, or the device does not multiply such weights by activations
// in `dtype`.
absl::StatusOr<LoadQuantization> ChooseLoadQuantization(LoadQuantization asked,
                                                        const ModelConfig& model, DType dtype,
                                                        const DeviceFacts& device);

}  // namespace quire
