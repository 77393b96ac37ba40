// Prefill attention on sm_90a: what the host side knows of the compiled kernels, one per element
// type and head size, each compiled in a file of its own from hopper_attention.cuh. They take the
// same work lists as the kernels of tiled_attention.h, and the cache as tensor maps as well.
#pragma once

#include <cuda.h>

#include "kernels/cuda/attention/tiles/tiled_attention.h"

namespace quire::cuda {

struct HopperParams {
  TiledParams tiled;
  // [blocks, kv_heads, block_size, head_dim] of K and of V; boxes of the kernel's map_columns of
  // one block's tokens of one head.
  CUtensorMap k_map;
  CUtensorMap v_map;
  // Everything that this kernel reads was complete before its predecessor began, and the
  // predecessor is an attention kernel, too: then they may run side by side.
  bool waits_last;
};

// For __nv_bfloat16 and __half, head sizes up to 64, 128 and 256.
template <typename Element, int kHeadDim>
TiledKernel HopperPrefillKernel();
// For a cache of 8-bit elements of either format, queries of either 16-bit type, and head sizes
// that are multiples of 16.
template <int kHeadDim>
TiledKernel Float8HopperPrefillKernel();
// For a cache of e4m3 and head sizes of 65 to 128 that are multiples of 16: queries and probs are
// rounded to e4m3, too, and multiplied as such.
TiledKernel Float8GemmsPrefillKernel();

}  // namespace quire::cuda
