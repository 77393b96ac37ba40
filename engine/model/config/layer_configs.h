// The layers of a config.json: their number, their heads and widths, and which of them have a
// window or no rotary positions. Plain function; any thread.
#pragma once

#include <cstdint>

#include "engine/json/json_reader.h"
#include "engine/model/config/model_config.h"
#include "engine/model/config/model_family.h"

namespace quire {

// Far above every published model, and low enough that products of a few of them fit 64 bits.
inline constexpr int64_t kMaxHiddenSize = 1 << 20;
inline constexpr int64_t kMaxPositions = 1 << 30;
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxHeads = 4096;
inline constexpr int64_t kMaxHeadDim = 1024;

// Makes model->layers; needs model->hidden_size. Layers with rotary positions have the first of
// ModelConfig::ropes. The reader's status records values that do not fit together.
void ReadLayerConfigs(JsonReader& config, const ModelFamily& family, ModelConfig* model);

}  // namespace quire
