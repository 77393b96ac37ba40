// The activations of gated MLPs in float32, as function objects, so that each has code of its own.
// Exponentials and quotients are the device's fast ones, off by some units of float32's last place:
// gated gemms compute them where nothing hides it. Device code.
#pragma once

#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/op_args.h"

namespace quire::cuda {

struct Silu {
  __device__ float operator()(float x) const { return __fdividef(x, 1.0f + __expf(-x)); }
};

// GELU's tanh form: (1 + tanh(u)) / 2 is sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  __device__ float operator()(float x) const {
    const float twice = 1.5957691216057308f * (x + 0.044715f * x * x * x);
    return __fdividef(x, 1.0f + __expf(-twice));
  }
};

// A gated pair of a gemm's float32 sums, as if gate and up had been stored as T and read again.
template <typename T, typename Function>
__device__ inline float Gated(float gate, float up, const Function& activate) {
  return Rounded<T>(up) * activate(Rounded<T>(gate));
}
template <typename T>
__device__ inline float Gated(float gate, float up, Activation activation) {
  return activation == Activation::kSilu ? Gated<T>(gate, up, Silu())
                                         : Gated<T>(gate, up, GeluTanh());
}

}  // namespace quire::cuda
