#include "kernels/cuda/gemm/quantized/quantize_activations.h"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/float8_rows.cuh"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kWarps = 8;

// Grid: (steps of a row / kWarps, rows), a warp a step of a row. Bytes: x read once, half of it
// written. Accumulation: none. Limit: memory bandwidth, or latency. A NaN stays one.
template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    QuantizeRowsKernel(const T* x, int64_t x_stride, int64_t num_columns, const Float8Rows rows) {
  struct alignas(4 * sizeof(T)) Quad {
    T elements[4];
  };
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t step = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (step >= rows.num_lines) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = blockIdx.y;
  const int64_t first = step * kStepColumns + lane * 4;
  const T* const from = x + row * x_stride + first;
  float values[4] = {};
  if (first + 4 <= num_columns && reinterpret_cast<uintptr_t>(from) % sizeof(Quad) == 0) {
    const Quad quad = *reinterpret_cast<const Quad*>(from);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(quad.elements[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i < num_columns) values[i] = static_cast<float>(from[i]);
    }
  }
  float most = 0;
#pragma unroll
  for (const float value : values) most = fmaxf(most, fabsf(value));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, distance));
  }
  const XScale scale(most);
  const uint32_t low = NarrowPair<__NV_E4M3>(scale(values[0]), scale(values[1]));
  const uint32_t high = NarrowPair<__NV_E4M3>(scale(values[2]), scale(values[3]));
  reinterpret_cast<uint32_t*>(rows.data + row * rows.row_bytes() + step * kStepColumns)[lane] =
      low | high << 16;
  if (lane == 0) {
    reinterpret_cast<float*>(rows.data + rows.scales_at())[step * rows.scale_stride() + row] =
        scale.scale;
  }
}

}  // namespace

void LaunchQuantizeRows(const Tensor& x, const Float8Rows& rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(CeilDiv<int64_t>(rows.num_lines, kWarps)),
                  static_cast<unsigned>(rows.num_rows));
  DispatchFloat(x.dtype(), [&]<typename T>() {
    LaunchKernel(QuantizeRowsKernel<T>, grid, kWarps * 32, 0, stream,
                 static_cast<const T*>(x.data()), x.row_stride(), x.dim(1), rows);
  });
}

}  // namespace quire::cuda
