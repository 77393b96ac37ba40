// The activations of gated MLPs in float32, as function objects, so that each has code of its own.
// Device code.
#pragma once

namespace quire::cuda {

struct Silu {
  __device__ float operator()(float x) const { return x / (1.0f + expf(-x)); }
};

// GELU's tanh form: (1 + tanh(u)) / 2 is sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  __device__ float operator()(float x) const {
    const float twice = 1.5957691216057308f * (x + 0.044715f * x * x * x);
    return x / (1.0f + expf(-twice));
  }
};

}  // namespace quire::cuda
