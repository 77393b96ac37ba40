#include "kernels/gated_delta.h"

#include <algorithm>

namespace quire {

// The CPU keeps for each token a scale of each query's and key's head, decay and beta of each v
// head, and o.
int64_t GatedDeltaRoomBytes(const GatedDeltaShape& shape, int64_t max_num_tokens) {
  const int64_t floats =
      2 * int64_t{shape.num_k_heads} + 2 * int64_t{shape.num_v_heads} + shape.v_size();
  return std::min(max_num_tokens, kGatedDeltaRoomTokens) * floats * DTypeBytes(DType::kF32);
}

}  // namespace quire
