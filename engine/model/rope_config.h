// The rotary embedding's part of a config.json. Plain function; any thread.
#pragma once

#include <cstdint>

#include "engine/model/json_file.h"
#include "engine/model/model_config.h"

namespace quire {

// Reads rope_parameters (transformers v5) or rope_theta and rope_scaling (v4). A type that is not
// supported, a missing factor or a value out of range is recorded in the reader's status.
RopeConfig ReadRopeConfig(JsonReader& config, int64_t max_position_embeddings);

}  // namespace quire
