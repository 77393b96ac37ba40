// The rotary embedding's part of a config.json. Plain function; any thread.
#pragma once

#include <cstdint>

#include "engine/json/json_reader.h"
#include "engine/model/config/model_config.h"
#include "engine/model/config/model_family.h"

namespace quire {

// Reads rope_parameters (transformers v5; perhaps one for each layer type) or rope_theta,
// rope_local_base_freq and rope_scaling (v4) into model->ropes, which the layers name: one rope for
// each kind and size of heads. The rope of the layers without a window comes first. Needs
// model->layers. The reader's status records a type that is not supported, a missing factor or a
// value out of range.
void ReadRopeConfigs(JsonReader& config, const ModelFamily& family, ModelConfig* model);

}  // namespace quire
