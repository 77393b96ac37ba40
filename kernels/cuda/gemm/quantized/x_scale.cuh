// How 128 numbers of a row of x become e4m3 (ActivationValue::kFloat8). Device code only.
#pragma once

namespace quire::cuda {

struct XScale {
  static constexpr float kMost = 448;  // of e4m3
  float most, scale;

  // Of the largest |x|.
  __device__ explicit XScale(float most) : most(most), scale(most / kMost) {}
  // What is then rounded to e4m3. NaN stays NaN.
  __device__ float operator()(float x) const { return most == 0 ? x * 0 : x / scale; }
};

}  // namespace quire::cuda
