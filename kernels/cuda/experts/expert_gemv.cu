// Gemms with experts' weights for a few pairs: a CTA has up to 8 rows of one expert and 16 rows of
// that expert's weight, whose columns its warps share out. Tensor cores multiply: x is the operand
// A, whose upper rows are zeros, 8 rows of the weight the operand B (gemm/gemv.cu).
#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/experts/expert_gemms.h"
#include "kernels/cuda/runtime/expert_counts.h"
#include "kernels/cuda/runtime/expert_tiles.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/mma.cuh"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda {

namespace {

constexpr int kRows = 8;      // of x, of a CTA
constexpr int kTileRows = 8;  // weight rows of one mma
constexpr int kTiles = 2;     // of a CTA: of a gated gemm gates and their ups
constexpr int kGroup = kTiles * kTileRows;
// Few in flight in a warp, and many warps: with eight a warp had to wait for later ones than the
// one that it used next (30B, one token: 19.8 us, so 16.7).
constexpr int kStages = 4;    // segments in flight
constexpr int kSegment = 64;  // k of a step: one 128-byte line of each weight row
// Warps of a CTA: more where there are columns for them.
constexpr int kManyWarps = 4, kFewWarps = 2;
constexpr int kMinColumnsOfMany = 1536;

// The bits of a bfloat16 or a float16: only the products and the stores tell them apart.
using Bits = uint16_t;

struct ExpertGemvParams {
  const Bits* x;
  const Bits* weight;
  const float* bias;  // [num_experts, out_features] or null
  void* out;
  const int32_t* pairs;
  const int32_t* offsets;
  int64_t x_stride, out_stride, expert_stride;
  int num_experts, out_features, in_features, top_k;
  int num_groups;  // of an expert
  int num_gates;   // of a gated gemm, whose weight is that many gate rows, then up rows; else 0
  Activation activation;

  // The weight row that a tile of a group has as its i-th. Beyond the last row the last one again:
  // it is read and not stored.
  __device__ int FeatureAt(int group, int tile, int i) const {
    if (num_gates == 0) return min(group * kGroup + tile * kTileRows + i, out_features - 1);
    return min(group * kTileRows + i, num_gates - 1) + tile * num_gates;
  }
};

// The weight is read once: it goes through L2 to registers and leaves L1 to x.
__device__ uint4 LoadWeight(const Bits* from) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}

// Lane 4 * r + q holds, of each segment, k q * 8 to q * 8 + 7 and the same 32 later, of weight row
// r of each tile and of row r of x; of what does not exist zeros.
struct Rows {
  const Bits* weights[kTiles];
  const Bits* x;  // or null

  __device__ void LoadWeights(int at, int in_features, uint4 (&to)[kTiles][2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = at + half * 32;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        to[i][half] = k < in_features ? LoadWeight(weights[i] + k) : uint4{};
      }
    }
  }
  __device__ void LoadX(int at, int in_features, uint4 (&to)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = at + half * 32;
      to[half] = x != nullptr && k < in_features ? *reinterpret_cast<const uint4*>(x + k) : uint4{};
    }
  }
};

template <int kWarps>
using WarpSums = float[kWarps][kRows][kGroup];

template <typename T, int kWarps>
__device__ void StoreSums(const ExpertGemvParams& p, const ExpertTile& tile, int group,
                          const WarpSums<kWarps>& warp_sums) {
  const bool is_gated = p.num_gates > 0;
  const int size = is_gated ? kTileRows : kGroup;
  const int num_columns = is_gated ? p.num_gates : p.out_features;
  const auto sum = [&](int row, int within, int feature) {
    float value = p.bias == nullptr ? 0 : p.bias[tile.expert * p.out_features + feature];
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) value += warp_sums[warp][row][within];
    return value;
  };
  for (int i = static_cast<int>(threadIdx.x); i < tile.num_rows * size; i += kWarps * 32) {
    const int row = i / size, within = i % size, column = group * size + within;
    if (column >= num_columns) continue;
    float value[1] = {sum(row, within, column)};
    if (is_gated) {
      value[0] =
          Gated<T>(value[0], sum(row, within + kTileRows, column + p.num_gates), p.activation);
    }
    const int at = tile.first_row + row;
    Store(value, static_cast<T*>(p.out) + (is_gated ? at : p.pairs[at]) * p.out_stride + column);
  }
}

// Grid: (groups, CTAs that take tiles of rows in turn). Bytes: the chosen experts' weights once
// from memory for every 8 rows of an expert; x once a CTA, from L1 or L2. Accumulation: a warp's
// segments in order in float32 on tensor cores, then the warps in order. Limit: memory bandwidth.
template <typename T, int kWarps>
__global__ void __launch_bounds__(kWarps * 32) ExpertGemv(const ExpertGemvParams p) {
  constexpr int kStep = kWarps * kSegment;
  __shared__ WarpSums<kWarps> warp_sums;
  ReleaseSuccessor();
  WaitForPredecessor();
  const int group = static_cast<int>(blockIdx.x);
  const int lane = threadIdx.x % 32, row = lane / 4;
  const int k = static_cast<int>(threadIdx.x) / 32 * kSegment + lane % 4 * 8;
  for (int index = static_cast<int>(blockIdx.y);; index += static_cast<int>(gridDim.y)) {
    const ExpertTile tile = FindExpertTile<false>(p.offsets, p.num_experts, kRows, index);
    if (tile.num_rows == 0) return;
    const Bits* const weight = p.weight + tile.expert * p.expert_stride;
    Rows rows;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      rows.weights[i] = weight + static_cast<int64_t>(p.FeatureAt(group, i, row)) * p.in_features;
    }
    uint4 weights[kStages][kTiles][2], x[kStages][2];
    // Before x, whose row is looked up.
#pragma unroll
    for (int i = 0; i < kStages; ++i) rows.LoadWeights(i * kStep + k, p.in_features, weights[i]);
    const int at = tile.first_row + row;
    rows.x = row >= tile.num_rows ? nullptr
             : p.num_gates == 0   ? p.x + at * p.x_stride
                                  : p.x + p.pairs[at] / p.top_k * p.x_stride;
#pragma unroll
    for (int i = 0; i < kStages; ++i) rows.LoadX(i * kStep + k, p.in_features, x[i]);
    float sums[kTiles][4] = {};
    for (int first = 0; first < p.in_features; first += kStages * kStep) {
#pragma unroll
      for (int i = 0; i < kStages; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int j = 0; j < kTiles; ++j) {
            const uint4 &w = weights[i][j][half], &of_x = x[i][half];
            MultiplyAdd<T>({of_x.x, 0, of_x.y, 0}, w.x, w.y, sums[j]);
            MultiplyAdd<T>({of_x.z, 0, of_x.w, 0}, w.z, w.w, sums[j]);
          }
        }
        const int next = first + (kStages + i) * kStep + k;
        rows.LoadWeights(next, p.in_features, weights[i]);
        rows.LoadX(next, p.in_features, x[i]);
      }
    }
    // Lane 4 * r + q has columns 2 * q and 2 * q + 1 of row r.
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      *reinterpret_cast<float2*>(&warp_sums[threadIdx.x / 32][row][j * kTileRows + lane % 4 * 2]) =
          make_float2(sums[j][0], sums[j][1]);
    }
    __syncthreads();
    StoreSums<T, kWarps>(p, tile, group, warp_sums);
    __syncthreads();
  }
}

}  // namespace

bool HasExpertGemv(const ExpertGemmArgs& args) {
  const LinearWeight& weight = *args.weight;
  const Tensor rows(weight.data, weight.dtype, {weight.out_features, weight.in_features});
  return !weight.format.quantized() && weight.dtype != DType::kF32 &&
         weight.expert_bytes % 16 == 0 && FitsVectors(weight.in_features, {&args.x, &rows});
}

void LaunchExpertGemv(const ExpertGemmArgs& args, cudaStream_t stream) {
  const LinearWeight& weight = *args.weight;
  const Routing& routing = args.routing;
  const auto num_columns = static_cast<int>(args.num_columns());
  const ExpertGemvParams p = {
      .x = static_cast<const Bits*>(args.x.data()),
      .weight = static_cast<const Bits*>(weight.data),
      .bias = args.bias.empty() ? nullptr : args.bias.as<float>(),
      .out = args.out.data(),
      .pairs = routing.pairs.as<int32_t>(),
      .offsets = routing.offsets.as<int32_t>(),
      .x_stride = args.x.row_stride(),
      .out_stride = args.out.row_stride(),
      .expert_stride = weight.expert_bytes / DTypeBytes(weight.dtype),
      .num_experts = static_cast<int>(routing.num_experts()),
      .out_features = static_cast<int>(weight.out_features),
      .in_features = static_cast<int>(weight.in_features),
      .top_k = static_cast<int>(routing.top_k()),
      .num_groups = CeilDiv(num_columns, args.is_gated ? kTileRows : kGroup),
      .num_gates = args.is_gated ? num_columns : 0,
      .activation = args.activation};
  constexpr int64_t kMostTiles = 1024;
  const dim3 grid(p.num_groups,
                  static_cast<unsigned>(std::min(MaxExpertTiles(routing, kRows), kMostTiles)));
  const bool is_half = weight.dtype == DType::kF16;
  if (p.in_features >= kMinColumnsOfMany) {
    LaunchKernel(is_half ? ExpertGemv<__half, kManyWarps> : ExpertGemv<__nv_bfloat16, kManyWarps>,
                 grid, kManyWarps * 32, 0, stream, p);
  } else {
    LaunchKernel(is_half ? ExpertGemv<__half, kFewWarps> : ExpertGemv<__nv_bfloat16, kFewWarps>,
                 grid, kFewWarps * 32, 0, stream, p);
  }
}

}  // namespace quire::cuda
