// How the kernels of GatedDelta read and write, element by element and by fours. Device code.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/runtime/mma.cuh"
#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/cuda/state/gated_delta_kernels.h"

namespace quire::cuda {

template <typename T>
__device__ inline float At(const void* data, int64_t i) {
  float value[1];
  Load(static_cast<const T*>(data) + i, value);
  return value[0];
}

template <typename T>
__device__ inline void Set(float value, void* data, int64_t i) {
  const float values[1] = {value};
  Store(values, static_cast<T*>(data) + i);
}

// Four consecutive elements as they lie in memory, aligned to what they take there.
template <typename T>
using Quad = std::conditional_t<std::is_same_v<T, float>, float4, uint2>;

template <typename T>
__device__ __forceinline__ void Widen(const Quad<T>& quad, float (&values)[4]) {
  if constexpr (std::is_same_v<T, float>) {
    values[0] = quad.x, values[1] = quad.y, values[2] = quad.z, values[3] = quad.w;
  } else if constexpr (std::is_same_v<T, __half>) {
    const float2 low = __half22float2(reinterpret_cast<const __half2&>(quad.x));
    const float2 high = __half22float2(reinterpret_cast<const __half2&>(quad.y));
    values[0] = low.x, values[1] = low.y, values[2] = high.x, values[3] = high.y;
  } else {
    values[0] = __uint_as_float(quad.x << 16), values[1] = __uint_as_float(quad.x & 0xffff0000u);
    values[2] = __uint_as_float(quad.y << 16), values[3] = __uint_as_float(quad.y & 0xffff0000u);
  }
}

template <typename T>
__device__ __forceinline__ Quad<T> Narrow(const float (&values)[4]) {
  if constexpr (std::is_same_v<T, float>) {
    return make_float4(values[0], values[1], values[2], values[3]);
  } else {
    return make_uint2(PackPair<T>(values[0], values[1]), PackPair<T>(values[2], values[3]));
  }
}

template <typename T>
__device__ __forceinline__ void LoadQuad(const void* data, int64_t first, float (&values)[4]) {
  Widen<T>(*reinterpret_cast<const Quad<T>*>(static_cast<const T*>(data) + first), values);
}

template <typename T>
__device__ inline T* ConvSlot(const StateView& state, int slot) {
  return reinterpret_cast<T*>(static_cast<char*>(state.conv) + slot * state.conv_stride_bytes);
}

// The matrix of a v head.
template <typename State>
__device__ inline State* RecurrentSlot(const GatedDeltaParams& params, int slot, int head) {
  char* first =
      static_cast<char*>(params.state.recurrent) + slot * params.state.recurrent_stride_bytes;
  return reinterpret_cast<State*>(first) +
         int64_t{head} * params.shape.k_head_dim * params.shape.v_head_dim;
}

// x sigmoid(x), within some units of float32's last place.
__device__ __forceinline__ float SiluApprox(float x) {
  return x * ReciprocalApprox(1.0f + Exp2Approx(-1.44269504f * x));
}

// Where a token's heads begin in a row of y.
__device__ inline int QueryChannel(const GatedDeltaShape& shape, int v_head) {
  return v_head / (shape.num_v_heads / shape.num_k_heads) * shape.k_head_dim;
}
__device__ inline int KeyChannel(const GatedDeltaShape& shape, int v_head) {
  return shape.num_k_heads * shape.k_head_dim + QueryChannel(shape, v_head);
}
__device__ inline int ValueChannel(const GatedDeltaShape& shape, int v_head) {
  return 2 * shape.num_k_heads * shape.k_head_dim + v_head * shape.v_head_dim;
}

struct DeltaGates {
  float log_decay;  // of what is kept, at most 0
  float beta;       // how much is written, 0 .. 1
};

template <typename T>
__device__ inline DeltaGates GatesOf(const GatedDeltaParams& params, int64_t token, int head) {
  const float b = At<T>(params.ba, token * params.ba_stride + head);
  const float a = At<T>(params.ba, token * params.ba_stride + params.shape.num_v_heads + head) +
                  params.dt_bias[head];
  const float softplus = fmaxf(a, 0.0f) + log1pf(expf(-fabsf(a)));
  return {.log_decay = -expf(params.a_log[head]) * softplus, .beta = 1.0f / (1.0f + expf(-b))};
}

}  // namespace quire::cuda
