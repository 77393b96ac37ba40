// How every warp walks through the items of its CTA. Device code only.
#pragma once

#include "kernels/cuda/attention/trtllm/decode_shape.cuh"

namespace quire::cuda::trtllm {

// By all lanes of a warp: calls visit(item) for all items of the CTA, in order.
template <typename Visit>
__device__ __forceinline__ void ForEachItem(const DecodeParams& p, const Visit& visit) {
  const DecodeShare& share = p.shares[blockIdx.x];
  DecodeItem item = share.item;
  const int32_t last = share.last;
  for (int32_t index = share.first; index <= last; ++index) {
    DecodeItem next = item;
    if (index < last) next = p.items[index + 1];
    visit(item);
    item = next;
  }
}

}  // namespace quire::cuda::trtllm
