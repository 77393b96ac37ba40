// How many tiles of pairs (expert_tiles.cuh) there may be, for code that launches kernels. Host
// code.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/experts.h"

namespace quire::cuda {

// The limit holds for any choice of experts.
inline int64_t MaxExpertTiles(const Routing& routing, int tile_rows) {
  return std::min(routing.num_pairs(), routing.num_experts() + routing.num_pairs() / tile_rows);
}

}  // namespace quire::cuda
