// The special parts of Gemma 4's layers: heads and values of the layers without a window, caches
// that the last layers share, and inputs of each layer. Plain function; any thread.
#pragma once

#include "engine/json/json_reader.h"
#include "engine/model/config/model_config.h"
#include "engine/model/config/model_family.h"

namespace quire {

// Needs model->layers with their windows, and model->vocab_size. Reads head sizes as transformers
// writes them since v5 (per_layer_config) and as published files have them (global_head_dim,
// num_global_key_value_heads). The reader's status records values that do not fit together.
void ReadGemma4Layers(JsonReader& config, const ModelFamily& family, ModelConfig* model);

}  // namespace quire
