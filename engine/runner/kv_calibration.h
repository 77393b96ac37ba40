// Scales of an 8-bit KV cache for checkpoints that bring none. At start, the model computes some
// tokens with a cache in full precision, which shows how large keys and values of each KV head get.
// The same model on the same device always gets the same scales. Used once, before serving; engine
// thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/model/config/model_config.h"
#include "engine/model/decoder.h"
#include "engine/model/weights.h"
#include "kernels/attention.h"
#include "kernels/backend.h"

namespace quire {

struct KvCalibration {
  DType dtype;     // of activations; the tokens' keys and values are kept in it meanwhile
  DType kv_dtype;  // of the later cache
  int32_t block_size;
  int64_t num_tokens;  // that a step may have
};

// Replaces the scales of every layer's keys and values. `prefill` computes prompts in `dtype`.
// RESOURCE_EXHAUSTED when the device has no room for the tokens' keys and values.
absl::Status CalibrateKvScales(Backend& backend, AttentionBackend& prefill,
                               const ModelConfig& model, const KvCalibration& calibration,
                               Decoder& decoder, Weights& weights);

}  // namespace quire
