// The MLPs of a config.json that are mixtures of experts: which layers have them, how many experts
// there are, and how tokens choose among them. Plain function; any thread.
#pragma once

#include <cstdint>

#include "engine/json/json_reader.h"
#include "engine/model/config/model_config.h"
#include "engine/model/config/model_family.h"

namespace quire {

// A mixture of one expert would be a plain MLP. No published model has one.
inline constexpr int64_t kMinExperts = 2;

// Makes those layers MlpKind::kRouted that are, of a family with experts; needs model->layers. What
// does not fit together is recorded in the reader's status.
void ReadRoutedMlps(JsonReader& config, const ModelFamily& family, ModelConfig* model);

}  // namespace quire
