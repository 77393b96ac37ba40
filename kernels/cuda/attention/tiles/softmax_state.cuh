// The running maximum and sum of a softmax, in base 2, and how two of them combine. A state that
// has seen no key is (-infinity, 0). Device code only.
#pragma once

#include <cmath>

#include "kernels/cuda/attention/tiles/mma.cuh"

namespace quire::cuda {

inline constexpr float kLog2E = 1.44269504088896340736f;

// The factor that turns probs relative to `max` into probs relative to `new_max` >= max.
__device__ __forceinline__ float Rescale(float max, float new_max) {
  return max == -INFINITY ? 0.0f : Exp2Approx(max - new_max);
}

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

}  // namespace quire::cuda
