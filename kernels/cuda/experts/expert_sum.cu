// The end of ExpertsLinear, and its gemm for weights that no other kernel takes.
#include <algorithm>

#include "kernels/base/types.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/experts/expert_gemms.h"
#include "kernels/cuda/runtime/expert_tiles.cuh"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/row_grid.cuh"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda {

namespace {

struct SumParams {
  const void* rows;      // [num_tokens * top_k, size]
  const float* weights;  // [num_tokens, top_k]
  const void* add;       // [num_tokens, size] or null
  const float* gate;     // of each token, or null
  void* out;             // [num_tokens, size]
  int64_t rows_stride, add_stride, gate_stride, out_stride, num_tokens, size;
  int top_k;
};

template <int kWidth>
__device__ void Gate(float logit, float (&values)[kWidth]) {
  const float factor = 1 / (1 + expf(-logit));
#pragma unroll
  for (float& value : values) value *= factor;
}

// Small, so that one token's row is spread over multiprocessors.
constexpr int kSumThreads = 64;

// Grid: a thread for each pack of kWidth elements of a token. Bytes: rows, add and out once.
// Accumulation: add, then a token's choices in their order, in float32. Limit: memory bandwidth,
// or latency: a thread has kAhead rows under way at once.
template <typename T, int kWidth, int kAhead>
__global__ void __launch_bounds__(kSumThreads) SumOfExperts(const SumParams p) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t at = FirstElement(kWidth, kSumThreads);
  if (at >= p.size) return;
  for (int64_t token = blockIdx.y; token < p.num_tokens; token += gridDim.y) {
    const T* const row = static_cast<const T*>(p.rows) + token * p.top_k * p.rows_stride + at;
    const float* const weights = p.weights + token * p.top_k;
    float sum[kWidth] = {};
    if (p.add != nullptr) Load(static_cast<const T*>(p.add) + token * p.add_stride + at, sum);
    const float gate = p.gate != nullptr ? p.gate[token * p.gate_stride] : 0;
    for (int first = 0; first < p.top_k; first += kAhead) {
      // Beyond the last choice the last one again: a branch between two loads would have the second
      // one wait for the first.
      float values[kAhead][kWidth], factors[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int choice = min(first + i, p.top_k - 1);
        factors[i] = weights[choice];
        Load(row + choice * p.rows_stride, values[i]);
      }
      if (first == 0 && p.gate != nullptr) Gate(gate, sum);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          if (first + i < p.top_k) sum[j] += factors[i] * values[i][j];
        }
      }
    }
    Store(sum, static_cast<T*>(p.out) + token * p.out_stride + at);
  }
}

struct SortParams {
  const char* x;
  char* out;
  const int32_t* pairs;
  int64_t x_stride, out_stride, row_bytes, num_pairs;  // strides in bytes
  int top_k;
};

// Grid: a thread for each piece of a row. Bytes: each result once, x from L2.
template <typename Piece>
__global__ void __launch_bounds__(kRowGridThreads) SortRows(const SortParams p) {
  WaitForPredecessor();
  ReleaseSuccessor();  // so that what follows finds Route complete
  const int64_t at = FirstElement(1) * static_cast<int64_t>(sizeof(Piece));
  if (at >= p.row_bytes) return;
  for (int64_t i = blockIdx.y; i < p.num_pairs; i += gridDim.y) {
    const char* const from = p.x + p.pairs[i] / p.top_k * p.x_stride + at;
    *reinterpret_cast<Piece*>(p.out + i * p.out_stride + at) =
        *reinterpret_cast<const Piece*>(from);
  }
}

struct PlainParams : ExpertGemmCommon {
  bool is_gated;
};

constexpr int kPlainThreads = 128, kPlainRows = 8, kWarp = 32;

// A warp's sums of rows of x with a row of a weight, in all lanes.
template <typename T>
__device__ void Dots(const PlainParams& p, const ExpertTile& tile, int feature,
                     float (&sums)[kPlainRows]) {
  const T* const weight = static_cast<const T*>(p.weight) + tile.expert * p.expert_stride +
                          static_cast<int64_t>(feature) * p.in_features;
#pragma unroll
  for (float& sum : sums) sum = 0;
  for (int k = static_cast<int>(threadIdx.x) % kWarp; k < p.in_features; k += kWarp) {
    float factor[1];
    Load(weight + k, factor);
#pragma unroll
    for (int i = 0; i < kPlainRows; ++i) {
      if (i >= tile.num_rows) break;
      const int row = tile.first_row + i;
      float value[1];
      Load(
          static_cast<const T*>(p.x) + (p.is_gated ? p.pairs[row] / p.top_k : row) * p.x_stride + k,
          value);
      sums[i] += value[0] * factor[0];
    }
  }
  const float bias = p.bias == nullptr ? 0 : p.bias[tile.expert * p.out_features + feature];
#pragma unroll
  for (float& sum : sums) sum = WarpSum(sum) + bias;
}

// Grid: a warp for each column, tiles of up to kPlainRows rows in turn. Accumulation: a lane's
// columns of x in order, then the lanes. Limit: the loads.
template <typename T>
__global__ void __launch_bounds__(kPlainThreads) PlainExpertGemm(const PlainParams p) {
  __shared__ ExpertTiles<kPlainThreads> tiles;
  ReleaseSuccessor();
  WaitForPredecessor();
  tiles.Make(p.offsets, p.num_experts, kPlainRows);
  const int column = (blockIdx.x * kPlainThreads + threadIdx.x) / kWarp;
  if (column >= p.num_columns) return;
  for (int i = blockIdx.y; i < tiles.total(); i += gridDim.y) {
    const ExpertTile tile = tiles.Find(i, kPlainRows);
    float sums[kPlainRows], ups[kPlainRows];
    Dots<T>(p, tile, column, sums);
    if (p.is_gated) Dots<T>(p, tile, column + p.num_columns, ups);
    if (threadIdx.x % kWarp != 0) continue;
#pragma unroll
    for (int r = 0; r < kPlainRows; ++r) {
      if (r >= tile.num_rows) break;
      const int row = tile.first_row + r;
      const float value[1] = {p.is_gated ? Gated<T>(sums[r], ups[r], p.activation) : sums[r]};
      Store(value,
            static_cast<T*>(p.out) + (p.is_gated ? row : p.pairs[row]) * p.out_stride + column);
    }
  }
}

}  // namespace

void LaunchSumOfExperts(const ExpertsLinearArgs& args, cudaStream_t stream) {
  const SumParams p = {.rows = args.rows.data(),
                       .weights = args.routing.weights.as<float>(),
                       .add = args.add.empty() ? nullptr : args.add.data(),
                       .gate = args.add_gate.empty() ? nullptr : args.add_gate.as<float>(),
                       .out = args.out.data(),
                       .rows_stride = args.rows.row_stride(),
                       .add_stride = args.add.empty() ? 0 : args.add.row_stride(),
                       .gate_stride = args.add_gate.empty() ? 0 : args.add_gate.row_stride(),
                       .out_stride = args.out.row_stride(),
                       .num_tokens = args.out.dim(0),
                       .size = args.out.dim(1),
                       .top_k = static_cast<int>(args.routing.top_k())};
  const bool fits = args.add.empty() ? FitsVectors(p.size, {&args.rows, &args.out})
                                     : FitsVectors(p.size, {&args.rows, &args.out, &args.add});
  DispatchFloat(args.out.dtype(), fits, [&]<typename T, int kWidth>() {
    LaunchKernel(p.top_k <= 4 ? SumOfExperts<T, kWidth, 4> : SumOfExperts<T, kWidth, 8>,
                 RowGrid(p.num_tokens, p.size, kWidth, kSumThreads), kSumThreads, 0, stream, p);
  });
}

void LaunchSortRows(const Tensor& x, const Routing& routing, const Tensor& out,
                    cudaStream_t stream) {
  const int64_t element_bytes = DTypeBytes(x.dtype());
  const SortParams p = {.x = static_cast<const char*>(x.data()),
                        .out = static_cast<char*>(out.data()),
                        .pairs = routing.pairs.as<int32_t>(),
                        .x_stride = x.row_stride() * element_bytes,
                        .out_stride = out.row_stride() * element_bytes,
                        .row_bytes = x.dim(1) * element_bytes,
                        .num_pairs = routing.num_pairs(),
                        .top_k = static_cast<int>(routing.top_k())};
  const bool fits = FitsVectors(x.dim(1), {&x, &out}) && element_bytes == 2;
  const auto piece_bytes = static_cast<int64_t>(fits ? sizeof(uint4) : sizeof(uint16_t));
  LaunchKernel(fits ? SortRows<uint4> : SortRows<uint16_t>,
               RowGrid(p.num_pairs, p.row_bytes / piece_bytes, 1), kRowGridThreads, 0, stream, p);
}

void LaunchPlainExpertGemm(const ExpertGemmArgs& args, cudaStream_t stream) {
  const PlainParams p = {CommonOf(args), args.is_gated};
  const dim3 grid(CeilDiv(p.num_columns, kPlainThreads / kWarp),
                  static_cast<unsigned>(std::min<int64_t>(args.routing.num_pairs(), 1024)));
  DispatchFloat(args.weight->dtype, [&]<typename T>() {
    LaunchKernel(PlainExpertGemm<T>, grid, kPlainThreads, 0, stream, p);
  });
}

}  // namespace quire::cuda
