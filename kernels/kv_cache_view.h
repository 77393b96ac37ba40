// KvCacheView: where a layer's keys and values are in device memory. Plain values; any thread.
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"

namespace quire {

// Where the keys of a layer's cache are, or its values: slot s of KV head h starts at
// (s / block_size) * block_stride + (s % block_size) * token_stride + h * head_stride (elements).
struct HeadsView {
  void* data = nullptr;
  int64_t block_stride = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
  int32_t head_dim = 0;
  // The factor that makes a stored element the value, for each KV head; null means 1. Only
  // 8-bit elements have scales: those are value / scale, rounded to nearest even, at most the
  // dtype's largest finite number (NaN stays NaN).
  const float* scales = nullptr;  // [num_kv_heads], on the device

  // Whether offsets into one are offsets into the other.
  bool IsLaidOutAs(const HeadsView& other) const {
    return block_stride == other.block_stride && token_stride == other.token_stride &&
           head_stride == other.head_stride && head_dim == other.head_dim;
  }
};

// One layer's cache.
struct KvCacheView {
  HeadsView k;
  HeadsView v;
  DType dtype = DType::kF32;
  int32_t block_size = 0;
  int32_t num_kv_heads = 0;
};

}  // namespace quire
