// LinearGroups: the gemms of a model's step, each kind with all weights that have its shape;
// for WeightStore::Tune. Plain function; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/weights.h"
#include "kernels/ops.h"

namespace quire {

// A step has up to max_num_tokens rows, and up to max_logit_rows of them reach the LM head.
std::vector<LinearGroup> LinearGroups(const Weights& weights, int num_layers,
                                      int64_t max_num_tokens, int64_t max_logit_rows);

}  // namespace quire
