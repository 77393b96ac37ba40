#include "kernels/cuda/gemm/quantized/quantize_activations.h"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kWarps = 8;
constexpr float kMostFloat8 = 448;

// Grid: (steps of a row / kWarps, rows), a warp a step of a row. Bytes: x read once, half of it
// written. Accumulation: none. Limit: memory bandwidth, or latency. A NaN stays one.
template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    QuantizeRowsKernel(const T* x, int64_t x_stride, int64_t num_columns, const Float8Rows rows) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t step = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (step >= rows.num_steps) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = blockIdx.y;
  // A lane has the columns of one word.
  const int64_t first = step * kStepColumns + lane / 4 * kSliceColumns + lane % 4 * 2;
  const int offsets[4] = {0, 8, 1, 9};
  float values[4], most = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t column = first + offsets[i];
    values[i] = column < num_columns ? static_cast<float>(x[row * x_stride + column]) : 0.0f;
    most = fmaxf(most, fabsf(values[i]));
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, distance));
  }
  const float scale = most / kMostFloat8;
#pragma unroll
  for (float& value : values) value = most == 0 ? value * 0 : value / scale;  // NaN stays NaN
  const uint32_t low = NarrowPair<__NV_E4M3>(values[0], values[1]);
  const uint32_t high = NarrowPair<__NV_E4M3>(values[2], values[3]);
  reinterpret_cast<uint32_t*>(rows.data + row * rows.row_bytes() + step * kStepColumns)[lane] =
      low | high << 16;
  if (lane == 0) {
    reinterpret_cast<float*>(rows.data + rows.scales_at())[step * rows.scale_stride() + row] =
        scale;
  }
}

}  // namespace

void LaunchQuantizeRows(const Tensor& x, const Float8Rows& rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(CeilDiv<int64_t>(rows.num_steps, kWarps)),
                  static_cast<unsigned>(rows.num_rows));
  DispatchFloat(x.dtype(), [&]<typename T>() {
    LaunchKernel(QuantizeRowsKernel<T>, grid, kWarps * 32, 0, stream,
                 static_cast<const T*>(x.data()), x.row_stride(), x.dim(1), rows);
  });
}

}  // namespace quire::cuda
