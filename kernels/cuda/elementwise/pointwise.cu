// Scale and SoftCap: a function of each element, in place.
#include <algorithm>

#include "kernels/base/types.h"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kThreads = 256;

struct ScaleFunction {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};

struct SoftCapFunction {
  float cap;
  __device__ float operator()(float x) const { return cap * tanhf(x / cap); }
};

// Grid: (packs of a row / kThreads, rows).
// Bytes: x read and written once.
// Accumulation: none.
// Limit: memory bandwidth.
template <typename T, int kWidth, typename Function>
__global__ void __launch_bounds__(kThreads)
    PointwiseKernel(const Function function, T* x, int64_t stride, int64_t num_rows, int64_t size) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWidth;
  if (i >= size) return;
  for (int64_t row = blockIdx.y; row < num_rows; row += gridDim.y) {
    float values[kWidth];
    Load(x + row * stride + i, values);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values[j] = function(values[j]);
    Store(values, x + row * stride + i);
  }
}

template <typename T, int kWidth, typename Function>
void LaunchFor(const Function& function, const Tensor& x, cudaStream_t stream) {
  const int64_t num_packs = CeilDiv<int64_t>(x.dim(1), kWidth);
  const dim3 grid(static_cast<unsigned>(CeilDiv<int64_t>(num_packs, kThreads)),
                  static_cast<unsigned>(std::min<int64_t>(x.dim(0), 65535)));
  LaunchKernel(PointwiseKernel<T, kWidth, Function>, grid, kThreads, 0, stream, function,
               static_cast<T*>(x.data()), x.row_stride(), x.dim(0), x.dim(1));
}

template <typename Function>
void Launch(const Function& function, const Tensor& x, cudaStream_t stream) {
  if (x.dim(0) == 0) return;
  DispatchFloat(x.dtype(), FitsVectors(x.dim(1), {&x}),
                [&]<typename T, int kWidth>() { LaunchFor<T, kWidth>(function, x, stream); });
}

}  // namespace

void LaunchScale(const ScaleArgs& args, cudaStream_t stream) {
  Launch(ScaleFunction{args.factor}, args.x, stream);
}

void LaunchSoftCap(const SoftCapArgs& args, cudaStream_t stream) {
  Launch(SoftCapFunction{args.cap}, args.x, stream);
}

}  // namespace quire::cuda
