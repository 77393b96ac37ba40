// The gemv of gemm/gemv.cu for pairs of tokens and experts: a task is a tile of up to 8 rows of one
// expert and a group of that expert's weight rows. Tensor cores multiply: x is the operand A, whose
// upper rows are zeros, 8 rows of the weight the operand B.
#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/experts/expert_gemms.h"
#include "kernels/cuda/runtime/expert_tiles.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/mma.cuh"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda {

namespace {

constexpr int kRows = 8;      // of x, of a task
constexpr int kTileRows = 8;  // weight rows of one mma
constexpr int kTiles = 2;     // of a group
constexpr int kGroup = kTiles * kTileRows;
constexpr int kWarps = 8, kThreads = kWarps * 32;
constexpr int kStages = 2;    // steps of a warp in flight
constexpr int kSegment = 64;  // k of a warp's step: one 128-byte line of each weight row
constexpr int kCtasPerSm = 3;

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

  // The weight row that a group has as its i-th. Of a gated gemm, half a group are gates, the
  // other half their ups. Beyond the last row the last one again: it is read and not stored.
  __device__ int FeatureAt(int group, int i) const {
    constexpr int kPairs = kGroup / 2;
    if (num_gates == 0) return min(group * kGroup + i, out_features - 1);
    return min(group * kPairs + i % kPairs, num_gates - 1) + (i < kPairs ? 0 : num_gates);
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

// A task as a lane sees it. Lane 4 * r + q holds, of each segment, k q * 8 to q * 8 + 7 and the
// same 32 later, of weight row r of each tile and of row r of x.
struct Task {
  ExpertTile tile;
  int group;
  const Bits* weight_rows[kTiles];
  const Bits* x_row;

  __device__ void LoadWeights(int at, int in_features, uint4 (&to)[kTiles][2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        to[i][half] =
            at + half * 32 < in_features ? LoadWeight(weight_rows[i] + at + half * 32) : uint4{};
      }
    }
  }
  __device__ void LoadX(int at, int in_features, uint4 (&to)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      to[half] = x_row != nullptr && at + half * 32 < in_features
                     ? *reinterpret_cast<const uint4*>(x_row + at + half * 32)
                     : uint4{};
    }
  }
};

__device__ Task MakeTask(const ExpertGemvParams& p, const ExpertTiles<kThreads>& tiles, int index) {
  Task task;
  const int tile = index / p.num_groups, row = threadIdx.x % 32 / 4;
  task.tile = tiles.Find(tile, kRows);
  task.group = index - tile * p.num_groups;
  const Bits* const weight = p.weight + task.tile.expert * p.expert_stride;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    const int feature = p.FeatureAt(task.group, i * kTileRows + row);
    task.weight_rows[i] = weight + static_cast<int64_t>(feature) * p.in_features;
  }
  const int at = task.tile.first_row + row;
  task.x_row = row >= task.tile.num_rows ? nullptr
               : p.num_gates == 0        ? p.x + at * p.x_stride
                                         : p.x + p.pairs[at] / p.top_k * p.x_stride;
  return task;
}

using WarpSums = float[kWarps][kRows][kGroup];

// The warps' sums in the order of the warps, and the bias.
__device__ float FinishedSum(const ExpertGemvParams& p, const WarpSums& warp_sums, int row,
                             int column, int expert, int feature) {
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += warp_sums[warp][row][column];
  return p.bias == nullptr ? sum : sum + p.bias[expert * p.out_features + feature];
}

template <typename T>
__device__ void StoreTask(const ExpertGemvParams& p, const Task& task, const WarpSums& warp_sums) {
  const bool is_gated = p.num_gates > 0;
  const int num_columns = is_gated ? p.num_gates : p.out_features;
  const int size = is_gated ? kGroup / 2 : kGroup;
  for (int i = threadIdx.x; i < task.tile.num_rows * size; i += kThreads) {
    const int row = i / size, within = i % size, column = task.group * size + within;
    if (column >= num_columns) continue;
    const int expert = task.tile.expert, at = task.tile.first_row + row;
    float value[1] = {FinishedSum(p, warp_sums, row, within, expert, column)};
    if (is_gated) {
      const float up = FinishedSum(p, warp_sums, row, within + size, expert, column + p.num_gates);
      value[0] = Gated<T>(value[0], up, p.activation);
    }
    const int64_t to = (is_gated ? at : p.pairs[at]) * p.out_stride + column;
    Store(value, static_cast<T*>(p.out) + to);
  }
}

// Grid: CTAs that take tasks in turn, whose warps share out the segments of k. Bytes: the chosen
// experts' weights once from memory for every 8 rows of an expert; x once a task, from L1 or L2.
// Accumulation: k in a warp's order in float32 on tensor cores, then over the warps in order.
// Limit: memory bandwidth. The next task's first loads are under way before this one's sums are
// complete.
template <typename T>
__global__ void __launch_bounds__(kThreads, kCtasPerSm) ExpertGemv(const ExpertGemvParams p) {
  __shared__ WarpSums warp_sums[2];
  __shared__ ExpertTiles<kThreads> tiles;
  ReleaseSuccessor();
  WaitForPredecessor();
  tiles.Make(p.offsets, p.num_experts, kRows);
  const int num_tasks = tiles.total() * p.num_groups;
  if (static_cast<int>(blockIdx.x) >= num_tasks) return;
  const int warp = threadIdx.x / 32, lane_k = threadIdx.x % 4 * 8;
  const auto k_of = [&](int step) { return (step * kWarps + warp) * kSegment + lane_k; };
  // A warp's steps of a task, in whole rounds; those beyond the last segment add zeros.
  const int steps = RoundUp(CeilDiv(p.in_features, kSegment * kWarps), kStages);
  Task task = MakeTask(p, tiles, blockIdx.x);
  uint4 weights[kStages][kTiles][2], x[2];
#pragma unroll
  for (int i = 0; i < kStages; ++i) task.LoadWeights(k_of(i), p.in_features, weights[i]);
  task.LoadX(k_of(0), p.in_features, x);
  int buffer = 0;
  for (int index = blockIdx.x; index < num_tasks; index += gridDim.x) {
    const int next_index = index + static_cast<int>(gridDim.x);
    Task next = task;  // of the loads
    float sums[kTiles][4] = {};
    for (int first = 0; first < steps; first += kStages) {
      const bool is_last = first + kStages == steps;
      if (is_last && next_index < num_tasks) next = MakeTask(p, tiles, next_index);
      const int next_first = is_last ? 0 : first + kStages;
#pragma unroll
      for (int i = 0; i < kStages; ++i) {
        uint4 next_x[2];
        if (i + 1 < kStages) {
          task.LoadX(k_of(first + i + 1), p.in_features, next_x);
        } else {
          next.LoadX(k_of(next_first), p.in_features, next_x);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int j = 0; j < kTiles; ++j) {
            const uint4& w = weights[i][j][half];
            MultiplyAdd<T>({x[half].x, 0, x[half].y, 0}, w.x, w.y, sums[j]);
            MultiplyAdd<T>({x[half].z, 0, x[half].w, 0}, w.z, w.w, sums[j]);
          }
        }
        next.LoadWeights(k_of(next_first + i), p.in_features, weights[i]);
        x[0] = next_x[0], x[1] = next_x[1];
      }
    }
    // Lane 4 * r + q holds columns 2 * q and 2 * q + 1 of row r.
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      float* const to =
          &warp_sums[buffer][warp][threadIdx.x % 32 / 4][j * kTileRows + threadIdx.x % 4 * 2];
      *reinterpret_cast<float2*>(to) = make_float2(sums[j][0], sums[j][1]);
    }
    __syncthreads();
    StoreTask<T>(p, task, warp_sums[buffer]);
    buffer ^= 1;  // the other one was read before the barrier above
    task = next;
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
      .num_groups = CeilDiv(num_columns, args.is_gated ? kGroup / 2 : kGroup),
      .num_gates = args.is_gated ? num_columns : 0,
      .activation = args.activation};
  const int64_t most_tasks = routing.num_pairs() * p.num_groups;
  const auto num_ctas =
      static_cast<unsigned>(std::min<int64_t>(most_tasks, int64_t{kCtasPerSm} * NumSms()));
  const auto kernel = weight.dtype == DType::kF16 ? ExpertGemv<__half> : ExpertGemv<__nv_bfloat16>;
  LaunchKernel(kernel, num_ctas, kThreads, 0, stream, p);
}

}  // namespace quire::cuda
