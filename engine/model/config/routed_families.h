// The rows of ModelFamily whose MLPs are mixtures of experts; read through model_family.h. Constant
// data; any thread.
#pragma once

#include "absl/types/span.h"
#include "engine/model/config/model_family.h"

namespace quire {

absl::Span<const ModelFamily> RoutedFamilies();

}  // namespace quire
