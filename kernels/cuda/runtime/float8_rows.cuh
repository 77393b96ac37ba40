// How 128 numbers of a row of x become e4m3 (ActivationValue::kFloat8). Device code only.
#pragma once

#include "kernels/float8_rows.h"

namespace quire::cuda {

// a / b rounded as division rounds it, for numbers in the middle of float32's range: of `inverse`,
// the rounded 1 / b (Markstein 1990). A few instructions and no branch, which counts in kernels
// whose code is read once.
__device__ __forceinline__ float Divide(float a, float b, float inverse) {
  const float quotient = a * inverse;
  return fmaf(fmaf(-quotient, b, a), inverse, quotient);
}
__device__ __forceinline__ float Inverse(float b) {
  float approximate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(approximate) : "f"(b));
  return fmaf(fmaf(-b, approximate, 1.0f), approximate, approximate);
}

class XScale {
 public:
  const float scale;

  // `most` is the largest |x|.
  __device__ explicit XScale(float most)
      : scale(Divide(most, kMost, 1 / kMost)),
        lift_(most < 1e-20f  ? 0x1p64f
              : most > 1e20f ? 0x1p-64f
                             : 1),
        is_usual_(scale > 0 && most <= 3.4028235e38f),
        lifted_(is_usual_ ? scale * lift_ : 0),
        inverse_(is_usual_ ? Inverse(lifted_) : 0) {}
  // x / scale, to be rounded to e4m3: zero where there are only zeros. NaN stays NaN.
  __device__ float operator()(float x) const { return Divide(x * lift_, lifted_, inverse_); }

 private:
  static constexpr float kMost = 448;  // of e4m3

  const float lift_;  // brings both to the middle of float32's range
  const bool is_usual_;
  const float lifted_, inverse_;
};

// The largest of the 16 neighbouring lanes that have eight numbers of a line each. The whole warp.
__device__ __forceinline__ float MaxOfLineLanes(float most) {
#pragma unroll
  for (int other = 8; other > 0; other /= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, other));
  }
  return most;
}

}  // namespace quire::cuda
