// Warps that share out the columns of a head, where one could not hold the results of all of them:
// each multiplies its columns of the queries by its columns of the keys, they add up what they
// found, and so have the same scores, softmax and probs, by which each multiplies its columns of
// the values. Nothing is multiplied twice. Device code only.
#pragma once

#include "kernels/cuda/runtime/async.cuh"

namespace quire::cuda {

template <typename Shape, int kWarpsD = Shape::kWarpsD>
class ColumnWarps {
 public:
  // The factor of this warp's products, applied before they are added to the others'.
  __device__ void SetPartScale(float part_scale) { part_scale_ = part_scale; }

  // Adds the products of the other warp with the same rows and keys, by way of `shared`
  // [warps, fragments, lanes, 4], which nobody may write again before all warps have met.
  template <int kRowTiles, int kFragments>
  __device__ void Sum(uint8_t* shared, int warp_d,
                      float (&scores)[kRowTiles][kFragments][4]) const {
    static_assert(kWarpsD == 2);  // so that both get the same bits
    constexpr int kPairs = Shape::kWarpsM * Shape::kWarpsN;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int pair = static_cast<int>(threadIdx.x / 32) % kPairs;
    const auto part_of = [&](int d) {
      return reinterpret_cast<float4*>(shared) + (d * kPairs + pair) * kRowTiles * kFragments * 32 +
             lane;
    };
    float4* const own = part_of(warp_d);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
        float(&part)[4] = scores[m][n];
#pragma unroll
        for (float& score : part) score *= part_scale_;
        own[(m * kFragments + n) * 32] = {part[0], part[1], part[2], part[3]};
      }
    }
    SyncSome(1 + pair, 64);
    const float4* const other = part_of(1 - warp_d);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
        const float4 part = other[(m * kFragments + n) * 32];
        scores[m][n][0] += part.x;
        scores[m][n][1] += part.y;
        scores[m][n][2] += part.z;
        scores[m][n][3] += part.w;
      }
    }
  }

 private:
  float part_scale_ = 1;
};

// A warp has all columns.
template <typename Shape>
class ColumnWarps<Shape, 1> {
 public:
  __device__ void SetPartScale(float /*part_scale*/) {}
  template <typename Scores>
  __device__ void Sum(uint8_t* /*shared*/, int /*warp_d*/, Scores& /*scores*/) const {}
};

}  // namespace quire::cuda
