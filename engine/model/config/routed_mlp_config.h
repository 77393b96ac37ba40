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

// In a family with experts, sets MlpKind::kRouted for the layers that have them; needs
// model->layers. The reader's status records values that do not fit together.
void ReadRoutedMlps(JsonReader& config, const ModelFamily& family, ModelConfig* model);

}  // namespace quire
