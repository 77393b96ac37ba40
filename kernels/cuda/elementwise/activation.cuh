// The activations of gated MLPs in float32, as function objects of a gate and what it gates, so
// that each has code of its own. Exponentials and quotients are the device's fast ones, off by some
// units of float32's last place: gated gemms compute them where nothing hides it. Device code.
#pragma once

#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/op_args.h"

namespace quire::cuda {

struct Silu {
  __device__ float operator()(float gate, float up) const {
    return up * __fdividef(gate, 1.0f + __expf(-gate));
  }
};

// GELU's tanh form: (1 + tanh(u)) / 2 is sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  __device__ float operator()(float gate, float up) const {
    const float twice = 1.5957691216057308f * (gate + 0.044715f * gate * gate * gate);
    return up * __fdividef(gate, 1.0f + __expf(-twice));
  }
};

// The activation of gpt-oss. A NaN stays a NaN.
struct ClampedSwish {
  static constexpr float kLimit = 7.0f;

  __device__ float operator()(float gate, float up) const {
    gate = gate > kLimit ? kLimit : gate;
    up = up > kLimit ? kLimit : up < -kLimit ? -kLimit : up;
    return (up + 1.0f) * __fdividef(gate, 1.0f + __expf(-1.702f * gate));
  }
};

// A gated pair of a gemm's float32 sums, as if gate and up had been stored as T and read again.
template <typename T, typename Function>
__device__ inline float Gated(float gate, float up, const Function& activate) {
  return activate(Rounded<T>(gate), Rounded<T>(up));
}
template <typename T>
__device__ inline float Gated(float gate, float up, Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh:
      return Gated<T>(gate, up, GeluTanh());
    case Activation::kClampedSwish:
      return Gated<T>(gate, up, ClampedSwish());
    default:
      return Gated<T>(gate, up, Silu());
  }
}

}  // namespace quire::cuda
