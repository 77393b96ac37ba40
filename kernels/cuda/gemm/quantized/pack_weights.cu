#include "kernels/base/check.h"
#include "kernels/base/random_weight.h"
#include "kernels/cuda/gemm/quantized/pack_weights.h"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/row_grid.cuh"
#include "kernels/float4_word.h"
#include "kernels/packed_codes.h"
#include "kernels/packed_layout.h"
#include "kernels/random_codes.h"

namespace quire::cuda {

namespace {

// Rows that lie in device memory.
struct GivenRows {
  QuantizedRows rows;
  WeightFormat format;
  int64_t num_columns, num_groups;

  __device__ uint8_t CodeAt(int64_t row, int64_t column) const {
    return quire::CodeAt(format.value, rows.codes + row * CodeRowBytes(format.value, num_columns),
                         column);
  }
  __device__ uint32_t ScaleAt(int64_t row, int64_t group) const {
    const int64_t i = row * num_groups + group;
    return format.scale == ScaleValue::kFloat32 ? static_cast<const uint32_t*>(rows.scales)[i]
                                                : static_cast<const uint8_t*>(rows.scales)[i];
  }
  __device__ uint8_t ZeroPointAt(int64_t row, int64_t group) const {
    return rows.zero_points[row * num_groups + group];
  }
  __device__ float RowScaleAt(int64_t row) const {
    return rows.row_scales == nullptr ? 1.0f : rows.row_scales[row];
  }
  __device__ int32_t OrderAt(int64_t column) const { return rows.order[column]; }
};

// Rows at random.
struct RandomRows {
  uint64_t seed, tensor_id;
  WeightValue value;
  RandomScale scale;
  float per_code;  // what a byte sum is multiplied with

  __device__ uint8_t CodeAt(int64_t row, int64_t column) const {
    const uint64_t key = RandomRowKey(seed, tensor_id, row);
    const float scaled = static_cast<float>(RandomByteSum(key, column)) * per_code;
    return value == WeightValue::kFloat8 ? static_cast<uint8_t>(NarrowPair<__NV_E4M3>(scaled, 0.0f))
                                         : RandomCode(value, scaled);
  }
  __device__ uint32_t ScaleAt(int64_t, int64_t) const { return scale.code; }
  __device__ uint8_t ZeroPointAt(int64_t, int64_t) const { return MiddleCode(value); }
  __device__ float RowScaleAt(int64_t) const { return scale.row_scale; }
  __device__ int32_t OrderAt(int64_t column) const { return static_cast<int32_t>(column); }
};

struct PackParams {
  PackedLayout layout;
  WeightFormat format;
  bool has_tiles;  // HasFloat8Tiles
  uint8_t* data;
  int64_t first_row, num_rows, num_columns;
};

// Grid: (pairs of a row's slices / kRowGridThreads, rows). Bytes, accumulation and limit as below.
template <typename Source>
__global__ void __launch_bounds__(kRowGridThreads)
    PackFloat4sKernel(const PackParams p, const Source source) {
  constexpr int kColumns = 2 * kSliceColumns, kPairsOfStep = kStepSlices / 2;
  const int64_t pair = FirstElement(1);
  if (pair >= p.layout.num_steps * kPairsOfStep) return;
  for (int64_t i = blockIdx.y; i < p.num_rows; i += gridDim.y) {
    uint8_t codes[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int64_t column = pair * kColumns + c;
      codes[c] = column < p.num_columns ? source.CodeAt(i, column) : 0;
    }
    const int64_t row = p.first_row + i;
    const int in_step = static_cast<int>(pair % kPairsOfStep);
    const int lower_row = static_cast<int>(row % kQuarterRows) / 8;
    uint8_t* const piece = p.data + p.layout.QuarterAt(row, pair / kPairsOfStep) +
                           in_step / 2 * 512 + row % 8 * 64 + in_step % 2 * 8 + lower_row * 4;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      uint32_t pairs[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        pairs[j] = Float4Bits(codes[j * 8 + 2 * q], codes[j * 8 + 2 * q + 1]);
      }
      *reinterpret_cast<uint32_t*>(piece + q * 16) = Float4Word(pairs);
    }
  }
}

// Grid: (slices of a row / kRowGridThreads, rows). Bytes: a code read and written once.
// Accumulation: none. Limit: memory bandwidth; much less, the bus that brings the codes.
template <typename Source>
__global__ void __launch_bounds__(kRowGridThreads)
    PackCodesKernel(const PackParams p, const Source source) {
  const int64_t slice = FirstElement(1);
  if (slice >= p.layout.num_steps * kStepSlices) return;
  for (int64_t i = blockIdx.y; i < p.num_rows; i += gridDim.y) {
    alignas(16) uint8_t codes[kSliceColumns];
#pragma unroll
    for (int c = 0; c < kSliceColumns; ++c) {
      const int64_t column = slice * kSliceColumns + c;
      codes[c] = column < p.num_columns ? source.CodeAt(i, column) : 0;
    }
    const int64_t row = p.first_row + i;
    if (p.has_tiles) {
      const int64_t at =
          p.layout.PieceAt(row, slice / kStepSlices, static_cast<int>(slice % kStepSlices));
      *reinterpret_cast<uint4*>(p.data + at) = *reinterpret_cast<const uint4*>(codes);
      continue;
    }
    const int in_step = static_cast<int>(slice % kStepSlices);
    const int half = static_cast<int>(row % kQuarterRows) / 8;
    const int piece_slices = 16 / p.layout.bits;  // 2 or 4
    uint8_t* const piece = p.data + p.layout.QuarterAt(row, slice / kStepSlices) +
                           in_step / piece_slices * 512 + row % 8 * 64 +
                           in_step % piece_slices * p.layout.bits;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      uint8_t* const to = piece + q * 16;
      const uint8_t a = codes[2 * q], b = codes[2 * q + 8], c = codes[2 * q + 1],
                    d = codes[2 * q + 9];
      if (p.layout.bits == 8) {
        *reinterpret_cast<uint32_t*>(to + half * 4) =
            a | uint32_t{b} << 8 | uint32_t{c} << 16 | uint32_t{d} << 24;
      } else {
        to[half] = static_cast<uint8_t>(a | b << 4);
        to[half + 2] = static_cast<uint8_t>(c | d << 4);
      }
    }
  }
}

// The largest of a row's scales that are powers of two. All threads of the CTA.
template <typename Source>
__device__ uint32_t LargestPower(const Source& source, int64_t row, int64_t num_groups) {
  __shared__ uint32_t largest;
  __syncthreads();  // the row before has been read
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  uint32_t own = 0;
  for (int64_t group = threadIdx.x; group < num_groups; group += kRowGridThreads) {
    own = max(own, source.ScaleAt(row, group));
  }
  atomicMax(&largest, own);
  __syncthreads();
  return largest;
}

// 2^(code - 127); NaN of what E8M0 has for it.
__device__ float PowerOf(uint32_t code) {
  if (code == 0xff) return __uint_as_float(0x7fffffffu);
  return __uint_as_float(code == 0 ? 0x00400000u : code << 23);
}

// Grid: (groups of a row, padding included, / kRowGridThreads, rows); there is one for rows without
// groups. Bytes, accumulation and limit as above.
template <typename Source>
__global__ void __launch_bounds__(kRowGridThreads)
    PackGroupsKernel(const PackParams p, const Source source, int64_t num_groups) {
  const PackedLayout& layout = p.layout;
  const int64_t group = FirstElement(1);
  for (int64_t i = blockIdx.y; i < p.num_rows; i += gridDim.y) {
    const int64_t row = p.first_row + i;
    const bool is_power = p.format.scale == ScaleValue::kPowerOfTwo;
    const uint32_t largest = is_power ? LargestPower(source, i, num_groups) : 0;
    if (group == 0 && layout.row_scales_at > 0) {
      const float scale = layout.groups_per_step == 0 ? __uint_as_float(source.ScaleAt(i, 0))
                          : is_power                  ? PowerOf(largest)
                                     : source.RowScaleAt(i) * (1 << kFloat8ScaleShift);
      reinterpret_cast<float*>(p.data + layout.row_scales_at)[row] = scale;
    }
    if (group >= layout.num_steps * layout.groups_per_step) continue;
    const bool exists = group < num_groups;
    uint32_t scale = exists ? source.ScaleAt(i, group) : 0;
    if (is_power) scale = scale + kLargestPower > largest ? scale + kLargestPower - largest : 0;
    if (p.has_tiles) {
      reinterpret_cast<uint32_t*>(p.data +
                                  layout.tile_scales_at())[group * layout.num_rows() + row] = scale;
      continue;
    }
    const int64_t at = row % kQuarterRows * layout.groups_per_step + group % layout.groups_per_step;
    uint8_t* const scales =
        p.data + layout.QuarterAt(row, group / layout.groups_per_step) + layout.code_bytes;
    if (p.format.scale == ScaleValue::kFloat32) {
      reinterpret_cast<uint32_t*>(scales)[at] = scale;
    } else {
      scales[at] = static_cast<uint8_t>(scale);
    }
    if (layout.zero_bytes > 0) {
      scales[layout.scale_bytes + at] = exists ? source.ZeroPointAt(i, group) : 0;
    }
  }
}

template <typename Source>
__global__ void __launch_bounds__(kRowGridThreads)
    PackOrderKernel(const PackParams p, const Source source) {
  const int64_t column = FirstElement(1);
  if (column >= p.num_columns) return;
  reinterpret_cast<int32_t*>(p.data + p.layout.order_at)[column] = source.OrderAt(column);
}

template <typename Source>
void LaunchPack(const LinearWeight& weight, int64_t first_row, int64_t num_rows,
                const Source& source, cudaStream_t stream) {
  const PackParams params = {.layout = PackedLayout(weight),
                             .format = weight.format,
                             .has_tiles = HasFloat8Tiles(weight),
                             .data = static_cast<uint8_t*>(weight.data),
                             .first_row = first_row,
                             .num_rows = num_rows,
                             .num_columns = weight.in_features};
  const PackedLayout& layout = params.layout;
  const int64_t num_slices = layout.num_steps * kStepSlices;
  if (weight.format.value == WeightValue::kFloat4) {
    PackFloat4sKernel<<<RowGrid(num_rows, num_slices / 2, 1), kRowGridThreads, 0, stream>>>(params,
                                                                                            source);
  } else {
    PackCodesKernel<<<RowGrid(num_rows, num_slices, 1), kRowGridThreads, 0, stream>>>(params,
                                                                                      source);
  }
  const int64_t num_groups = std::max<int64_t>(1, layout.num_steps * layout.groups_per_step);
  PackGroupsKernel<<<RowGrid(num_rows, num_groups, 1), kRowGridThreads, 0, stream>>>(
      params, source, NumGroups(weight.format, weight.in_features));
  // All rows have the same.
  if (layout.order_at > 0 && first_row == 0) {
    PackOrderKernel<<<RowGrid(1, weight.in_features, 1), kRowGridThreads, 0, stream>>>(params,
                                                                                       source);
  }
}

// Grid: (elements of a row / kRowGridThreads, rows). Bytes: x read and written once. Accumulation:
// none. Limit: memory bandwidth, or latency.
__global__ void __launch_bounds__(kRowGridThreads)
    OrderColumnsKernel(const uint16_t* x, int64_t x_stride, const int32_t* order, uint16_t* out,
                       int64_t out_stride, int64_t num_rows, int64_t size) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t i = FirstElement(1);
  if (i >= size) return;
  const int64_t from = order == nullptr ? i : order[i];
  for (int64_t row = blockIdx.y; row < num_rows; row += gridDim.y) {
    out[row * out_stride + i] = x[row * x_stride + from];
  }
}

}  // namespace

void LaunchPackRows(const LinearWeight& weight, int64_t first_row, const QuantizedRows& rows,
                    cudaStream_t stream) {
  LaunchPack(weight, first_row, rows.num_rows,
             GivenRows{.rows = rows,
                       .format = weight.format,
                       .num_columns = weight.in_features,
                       .num_groups = NumGroups(weight.format, weight.in_features)},
             stream);
}

void LaunchFillQuantized(const LinearWeight& weight, const FillWeightArgs& args,
                         cudaStream_t stream) {
  const RandomScale scale = RandomScaleOf(weight.format, args.stddev);
  LaunchPack(weight, 0, weight.out_features,
             RandomRows{.seed = args.seed,
                        .tensor_id = args.tensor_id,
                        .value = weight.format.value,
                        .scale = scale,
                        .per_code = RandomWeightScale(args.stddev) / scale.value},
             stream);
}

void LaunchOrderColumns(const Tensor& x, const int32_t* order, const Tensor& out,
                        cudaStream_t stream) {
  CHECK_EQ(DTypeBytes(x.dtype()), 2);
  const int64_t num_rows = x.dim(0), size = x.dim(1);
  LaunchKernel(OrderColumnsKernel, RowGrid(num_rows, size, 1), kRowGridThreads, 0, stream,
               static_cast<const uint16_t*>(x.data()), x.row_stride(), order,
               static_cast<uint16_t*>(out.data()), out.row_stride(), num_rows, size);
}

}  // namespace quire::cuda
