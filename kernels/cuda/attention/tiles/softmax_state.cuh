// The running maximum and sum of a softmax, in base 2, and how two of them combine. A state that
// has seen no key is (-infinity, 0). Device code only.
#pragma once

#include <cmath>

#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

inline constexpr float kLog2E = 1.44269504088896340736f;

// The factor that turns probs relative to `max` into probs relative to `new_max` >= max.
__device__ __forceinline__ float Rescale(float max, float new_max) {
  return max == -INFINITY ? 0.0f : Exp2Approx(max - new_max);
}

// A running combination of parts: of a row, four columns of probs times values.
struct CombinedQuad {
  float2 state = {-INFINITY, 0};
  float4 sum = {};

  __device__ void RaiseMaximum(float max) {
    if (max <= state.x) return;
    const float rescale = Rescale(state.x, max);
    state = {max, state.y * rescale};
    sum = {sum.x * rescale, sum.y * rescale, sum.z * rescale, sum.w * rescale};
  }
  // A part whose maximum is no larger than `state.x`.
  __device__ void Add(float2 part, const float4& values) {
    const float scale = Rescale(part.x, state.x);
    const bool has_values = scale != 0;  // what saw no key may have left none
    state.y += has_values ? part.y * scale : 0;
    sum.x += has_values ? values.x * scale : 0;
    sum.y += has_values ? values.y * scale : 0;
    sum.z += has_values ? values.z * scale : 0;
    sum.w += has_values ? values.w * scale : 0;
  }
};

// Base-2 log-sum-exp of a state; -infinity where it has seen no key.
__device__ __forceinline__ float LogSum(float2 state) {
  return state.y > 0 ? state.x + log2f(state.y) : -INFINITY;
}

__device__ __forceinline__ float Reciprocal(float sum) { return sum > 0 ? 1.0f / sum : 0.0f; }

// What a row's sum of probs times values is multiplied by when all of its keys are in, and its
// log-sum-exp.
struct FinalRow {
  float scale;
  float lse;
};

// `sink` (base 2) adds to the sum of probs only; -infinity: there is none.
__device__ __forceinline__ FinalRow FinishRow(float2 state, float sink) {
  if (sink == -INFINITY) return {Reciprocal(state.y), LogSum(state)};
  const float max = fmaxf(state.x, sink);
  const float part = Rescale(state.x, max);
  const float sum = state.y * part + Exp2Approx(sink - max);
  return {part / sum, max + log2f(sum)};
}

// `row` becomes its part of what it and the attention to other keys are together; returns the share
// of those.
__device__ __forceinline__ float MergeWith(float old_lse, FinalRow& row) {
  const float max = fmaxf(old_lse, row.lse);
  if (max == -INFINITY) return 0;
  const float lse = max + log2f(exp2f(old_lse - max) + exp2f(row.lse - max));
  row = {row.scale * exp2f(row.lse - lse), lse};
  return exp2f(old_lse - lse);
}

}  // namespace quire::cuda
