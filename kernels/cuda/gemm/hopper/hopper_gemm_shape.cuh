// The parameters of the kernel for gemms of few rows, how it uses shared memory, and what a CTA
// does. Device code only.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/gemm/hopper/cluster.cuh"
#include "kernels/cuda/gemm/hopper/float8_lines.cuh"
#include "kernels/cuda/runtime/async.cuh"
#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/op_args.h"

namespace quire::cuda {

struct HopperGemmParams {
  CUtensorMap
      weight_map;         // [out_features, in_features], boxes of half a tile's rows, one line each
  CUtensorMap x_map;      // [num_rows, in_features], boxes of num_x_rows lines
  Float8Matrices float8;  // of gemms of e4m3
  FloatVector bias;       // or null
  void* out;
  int64_t out_stride;  // of out's elements
  bool has_pairs;      // aligned, of all out's rows
  int num_rows, out_features;
  int num_x_rows;  // of a CTA: all, rounded up to whole eights, or Shape::kTileRows
  int num_lines, num_steps, num_tiles, num_stages;
  int num_splits;     // CTAs of a cluster, which share out in_features
  bool out_is_float;  // float32; else of x's type
  int num_gates;      // of a gated gemm, whose weight is that many gate rows, then up rows; else 0
  Activation activation;
};

// Shared memory: mbarriers; a ring of stages, of kBlocks lines of each row of the weight's tile and
// of x, and of e4m3 their scales; room for other CTAs' sums. kIsFloat8: of e4m3, to results of
// ElementType.
template <typename ElementType, int kFeatures, bool kIsFloat8 = false>
struct HopperGemmShape {
  using Element = ElementType;
  static constexpr bool kFloat8 = kIsFloat8;
  static constexpr int kComputeThreads = 128;  // a warpgroup
  static constexpr int kComputeWarps = kComputeThreads / 32;
  static constexpr int kThreads = kComputeThreads + 32;
  static constexpr int kTileRows = 64;  // of x, which a CTA has at most
  static constexpr int kTileFeatures = kFeatures;
  static constexpr int kHalf = kFeatures / 2;  // of a tile: the gates, or the first
  static constexpr int kFragments = kFeatures / 8;
  static constexpr int kLineBytes = 128;
  static constexpr int kLineDepth = kIsFloat8 ? kLineBytes : kLineBytes / 2;  // in_features
  static constexpr int kBlocks = kFeatures <= 64 ? 2 : 1;
  static constexpr int kStepDepth = kBlocks * kLineDepth;
  static constexpr int kWeightBytes = kFeatures * kLineBytes;  // of a block
  static constexpr int kMaxStages = 16;
  static constexpr int kAlignment = 1024;  // of what is swizzled
  using LineScales = Float8LineScales<kTileRows, kHalf>;
  static constexpr int kScaleBytes =
      kIsFloat8 ? (kBlocks * LineScales::kBytes + kAlignment - 1) / kAlignment * kAlignment : 0;
  static constexpr int kMbarrierBytes = (2 * kMaxStages + 2) * 8;
  static_assert(kMbarrierBytes <= kAlignment);

  static constexpr int StageBytes(int num_x_rows) {
    return kBlocks * (kWeightBytes + num_x_rows * kLineBytes) + kScaleBytes;
  }
  // The threads that hand sums to another CTA, which are those of the warps that have rows of x,
  // and the bytes of their sums.
  static constexpr __host__ __device__ int SumsThreads(int num_x_rows) {
    return (num_x_rows + 15) / 16 * 32;
  }
  static constexpr __host__ __device__ int SumsBytes(int num_x_rows) {
    return SumsThreads(num_x_rows) * kFragments * 16;
  }
  // The bytes beside the stages. Gemms read kTileRows rows of x: rows beyond num_x_rows are of no
  // use, but there must be memory for them.
  static constexpr int FixedBytes(int num_splits, int num_x_rows) {
    const int sums_bytes = (num_splits - 1) * SumsBytes(num_x_rows);
    const int beyond_bytes = (kTileRows - num_x_rows) * kLineBytes;
    return 2 * kAlignment + (sums_bytes > beyond_bytes ? sums_bytes : beyond_bytes);
  }
};

template <typename Shape>
struct HopperGemmShared {
  uint8_t* data;
  int num_stages, num_x_rows;

  __device__ HopperGemmShared(uint8_t* raw, const HopperGemmParams& p)
      : data(raw + (-SharedAddress(raw) & (Shape::kAlignment - 1))),
        num_stages(p.num_stages),
        num_x_rows(p.num_x_rows) {}

  __device__ uint32_t weight(int stage, int block) const {
    return mbarriers_end() + stage * Shape::StageBytes(num_x_rows) + block * Shape::kWeightBytes;
  }
  __device__ uint32_t x(int stage, int block) const {
    return weight(stage, Shape::kBlocks) + block * num_x_rows * Shape::kLineBytes;
  }
  __device__ uint32_t scales(int stage, int block) const {
    return x(stage, Shape::kBlocks) + block * Shape::LineScales::kBytes;
  }
  // Where a thread keeps or finds sums of the split numbered `split`, from 1 on, in steps of
  // SumsThreads * 16 bytes.
  __device__ uint32_t sums(int split) const {
    return weight(num_stages, 0) + (split - 1) * Shape::SumsBytes(num_x_rows) + threadIdx.x * 16;
  }
  __device__ uint32_t full(int stage) const {
    return mbarriers_end() - Shape::kMbarrierBytes + stage * 8;
  }
  __device__ uint32_t free(int stage) const { return full(Shape::kMaxStages + stage); }
  __device__ uint32_t sums_full() const { return full(2 * Shape::kMaxStages); }
  __device__ uint32_t sums_free() const { return full(2 * Shape::kMaxStages + 1); }

  __device__ void InitMbarriers(const HopperGemmParams& p) const {
    for (int i = 0; i < num_stages; ++i) {
      InitMbarrier(full(i), 1);
      InitMbarrier(free(i), Shape::kComputeWarps);
    }
    InitMbarrier(sums_full(), 1);
    InitMbarrier(sums_free(), Shape::kComputeThreads);
    PublishMbarriers();
  }

 private:
  __device__ uint32_t mbarriers_end() const { return SharedAddress(data) + Shape::kAlignment; }
};

// What a CTA does: tiles of out_features in turn, of each its share of the steps along in_features.
struct HopperGemmWork {
  int split;
  int row_tile;  // of x
  int first_tile, tile_stride;
  int first_step, end_step;  // of every tile

  __device__ explicit HopperGemmWork(const HopperGemmParams& p)
      : split(p.num_splits == 1 ? 0 : ClusterRank()),
        row_tile(static_cast<int>(blockIdx.y)),
        first_tile(static_cast<int>(blockIdx.x) / p.num_splits),
        tile_stride(static_cast<int>(gridDim.x) / p.num_splits),
        first_step(split * p.num_steps / p.num_splits),
        end_step((split + 1) * p.num_steps / p.num_splits) {}
};

}  // namespace quire::cuda
