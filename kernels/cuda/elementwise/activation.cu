// GatedActivation: each element of the output is made by one thread.
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/row_grid.cuh"

namespace quire::cuda {

namespace {

// Grid: (packs of a row / kRowGridThreads, rows).
// Bytes: gate and up read once, out written once.
// Accumulation: none.
// Limit: memory bandwidth; launch latency below some 2 MB.
template <typename Function, typename T, int kWidth>
__global__ void __launch_bounds__(kRowGridThreads)
    GatedActivationKernel(const T* gates, int64_t gate_stride, const T* ups, int64_t up_stride,
                          T* out, int64_t out_stride, int64_t num_rows, int64_t size) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t i = FirstElement(kWidth);
  if (i >= size) return;
  for (int64_t row = blockIdx.y; row < num_rows; row += gridDim.y) {
    float gate[kWidth], up[kWidth];
    Load(gates + row * gate_stride + i, gate);
    Load(ups + row * up_stride + i, up);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) up[j] = Function()(gate[j], up[j]);
    Store(up, out + row * out_stride + i);
  }
}

template <typename T, int kWidth>
auto KernelOf(Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh:
      return GatedActivationKernel<GeluTanh, T, kWidth>;
    case Activation::kClampedSwish:
      return GatedActivationKernel<ClampedSwish, T, kWidth>;
    default:
      return GatedActivationKernel<Silu, T, kWidth>;
  }
}

template <typename T, int kWidth>
void LaunchGated(const GatedActivationArgs& args, cudaStream_t stream) {
  const int64_t num_rows = args.out.dim(0), size = args.out.dim(1);
  LaunchKernel(KernelOf<T, kWidth>(args.activation), RowGrid(num_rows, size, kWidth),
               kRowGridThreads, 0, stream, static_cast<const T*>(args.gate.data()),
               args.gate.row_stride(), static_cast<const T*>(args.up.data()), args.up.row_stride(),
               static_cast<T*>(args.out.data()), args.out.row_stride(), num_rows, size);
}

}  // namespace

void LaunchGatedActivation(const GatedActivationArgs& args, cudaStream_t stream) {
  if (args.out.dim(0) == 0) return;
  const bool vectors = FitsVectors(args.out.dim(1), {&args.gate, &args.up, &args.out});
  DispatchFloat(args.out.dtype(), vectors,
                [&]<typename T, int kWidth>() { LaunchGated<T, kWidth>(args, stream); });
}

}  // namespace quire::cuda
