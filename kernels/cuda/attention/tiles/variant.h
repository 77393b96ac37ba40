// AttentionVariant: what a layer group does to the logits of standard attention: their scale, a
// cap, which keys a query sees. All attention kernels ask it; a new mask or cap is a member here.
// Its values are the same for a whole launch, so kernels branch on them once a tile, and there is
// no instance of a kernel for each.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace quire::cuda {

struct AttentionVariant {
  float scale;             // multiplies q.k
  float soft_cap;          // > 0: logit = cap * tanh(logit / cap)
  int64_t sliding_window;  // > 0: a query sees this many keys, its own included
  bool causal = true;      // false: it sees all keys of its sequence

  // The variant of an AttentionGeometry. It is a template so that kernels need not see that header.
  template <typename Geometry>
  static AttentionVariant Of(const Geometry& geometry) {
    return {.scale = geometry.scale,
            .soft_cap = geometry.soft_cap,
            .sliding_window = geometry.sliding_window};
  }

  // Where the keys end that query `query` of `query_len` sees.
  __device__ int32_t KeyEnd(int32_t seq_len, int32_t query_len, int32_t query) const {
    return KeyEnd(causal, seq_len, query_len, query);
  }
  static __device__ int32_t KeyEnd(bool causal, int32_t seq_len, int32_t query_len, int32_t query) {
    return causal ? seq_len - (query_len - 1 - query) : seq_len;
  }
  // The first key that a query sees; `key_end` is the end of the keys that it sees.
  __device__ int32_t KeyBegin(int32_t key_end) const {
    const int64_t begin = sliding_window > 0 ? key_end - sliding_window : 0;
    return begin > 0 ? static_cast<int32_t>(begin) : 0;
  }
  // The most of `num_keys` keys that `num_queries` consecutive queries see together.
  __device__ int32_t MostKeys(int32_t num_keys, int32_t num_queries) const {
    if (sliding_window == 0) return num_keys;
    const int64_t most = sliding_window + num_queries;
    return most < num_keys ? static_cast<int32_t>(most) : num_keys;
  }

  // Whether logits are more than scaled: then they are computed before their maximum is taken.
  __device__ bool ChangesLogits() const { return soft_cap > 0; }
  // The logit of q.k.
  __device__ float Logit(float score) const {
    const float logit = score * scale;
    return soft_cap > 0 ? soft_cap * tanhf(logit / soft_cap) : logit;
  }
};

}  // namespace quire::cuda
