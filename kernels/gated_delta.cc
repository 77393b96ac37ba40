#include "kernels/gated_delta.h"

#include <algorithm>

namespace quire {

namespace {

// For each token a scale of each query's and key's head, decay and beta of each v head, and o.
int64_t CpuRoomBytes(const GatedDeltaShape& shape, int64_t max_num_tokens) {
  const int64_t floats =
      2 * int64_t{shape.num_k_heads} + 2 * int64_t{shape.num_v_heads} + shape.v_size();
  return std::min(max_num_tokens, kGatedDeltaRoomTokens) * floats * DTypeBytes(DType::kF32);
}

// The tiles of two passes, and a state on its way from one to the next, twice.
int64_t GpuRoomBytes(const GatedDeltaShape& shape) {
  if (!shape.has_tiles()) return 0;
  const int64_t state_bytes =
      int64_t{shape.k_head_dim} * shape.v_head_dim * DTypeBytes(DType::kF32);
  return 2 * shape.num_v_heads * (kGatedDeltaTilesPerPass * kGatedDeltaTileBytes + state_bytes);
}

}  // namespace

int64_t GatedDeltaRoomBytes(const GatedDeltaShape& shape, int64_t max_num_tokens,
                            DeviceKind device) {
  return device == DeviceKind::kCpu ? CpuRoomBytes(shape, max_num_tokens) : GpuRoomBytes(shape);
}

}  // namespace quire
