// LinearGroups: the linear operations of a model's step, grouped by shape, for WeightStore::Tune.
// Plain function; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/weights.h"
#include "kernels/weight_store.h"

namespace quire {

// A step has up to max_num_batched_tokens rows, and up to max_logit_rows of them reach the LM head.
std::vector<LinearGroup> LinearGroups(const Weights& weights, int64_t max_num_batched_tokens,
                                      int64_t max_logit_rows);

}  // namespace quire
