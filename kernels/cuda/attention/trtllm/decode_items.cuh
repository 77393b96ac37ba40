// How every warp walks through the items of its CTA. Device code only.
#pragma once

#include "kernels/cuda/attention/trtllm/decode_shape.cuh"

namespace quire::cuda::trtllm {

// Reads a part of the plan, before this kernel has waited for its predecessor. The read goes past
// L1, which may hold an earlier step's plan.
template <typename T>
__device__ __forceinline__ T ReadPlan(const T* from) {
  static_assert(alignof(T) == 16);
  T result;
#pragma unroll
  for (size_t i = 0; i < sizeof(T) / 16; ++i) {
    reinterpret_cast<uint4*>(&result)[i] = __ldcg(reinterpret_cast<const uint4*>(from) + i);
  }
  return result;
}

// By all lanes of a warp: calls visit(item) for all items of the CTA, in order.
template <typename Visit>
__device__ __forceinline__ void ForEachItem(const DecodeParams& p, const Visit& visit) {
  const DecodeShareItems share = ReadPlan(&p.shares[blockIdx.x].items);
  DecodeItem item = share.item;
  for (int32_t index = share.first; index <= share.last; ++index) {
    DecodeItem next = item;
    if (index < share.last) next = ReadPlan(p.items + index + 1);
    visit(item);
    item = next;
  }
}

}  // namespace quire::cuda::trtllm
