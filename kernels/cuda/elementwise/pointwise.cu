// Scale, SoftCap, Add and Gate: a function of each element, in place.
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

struct AddParams {
  void* x;
  int64_t x_stride;
  const void* y;
  int64_t y_stride;
  const float* factor;  // null: 1
  int64_t num_rows, size;
};

// Grid: (packs of a row / kThreads, rows).
// Bytes: x read and written once, y read once.
// Accumulation: none.
// Limit: memory bandwidth.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads) AddKernel(const AddParams params) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWidth;
  if (i >= params.size) return;
  const float factor = params.factor == nullptr ? 1.0f : *params.factor;
  for (int64_t row = blockIdx.y; row < params.num_rows; row += gridDim.y) {
    T* x = static_cast<T*>(params.x) + row * params.x_stride + i;
    float values[kWidth], added[kWidth];
    Load(x, values);
    Load(static_cast<const T*>(params.y) + row * params.y_stride + i, added);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values[j] = (values[j] + added[j]) * factor;
    Store(values, x);
  }
}

struct GateParams {
  const void* gate;
  int64_t gate_row_stride, first, stride;
  void* x;
  int64_t x_row_stride;
  int64_t num_rows;
  int head_dim, row_size;
};

// Grid: (packs of a row / kThreads, rows).
// Bytes: x read and written once, its gates read once.
// Accumulation: none.
// Limit: memory bandwidth.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads) GateKernel(const GateParams params) {
  ReleaseSuccessor();
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * kWidth;
  const int head = i / params.head_dim;
  const T* gate = static_cast<const T*>(params.gate) + params.first + head * params.stride +
                  (i - head * params.head_dim);
  T* x = static_cast<T*>(params.x) + i;
  WaitForPredecessor();
  if (i >= params.row_size) return;
  for (int64_t row = blockIdx.y; row < params.num_rows; row += gridDim.y) {
    float values[kWidth], gates[kWidth];
    Load(x + row * params.x_row_stride, values);
    Load(gate + row * params.gate_row_stride, gates);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values[j] = __fdividef(values[j], 1.0f + __expf(-gates[j]));
    Store(values, x + row * params.x_row_stride);
  }
}

}  // namespace

void LaunchAdd(const AddArgs& args, cudaStream_t stream) {
  const Tensor &x = args.x, &y = args.y;
  if (x.dim(0) == 0) return;
  const AddParams params = {.x = x.data(),
                            .x_stride = x.row_stride(),
                            .y = y.data(),
                            .y_stride = y.row_stride(),
                            .factor = args.factor.empty() ? nullptr : args.factor.as<float>(),
                            .num_rows = x.dim(0),
                            .size = x.dim(1)};
  DispatchFloat(x.dtype(), FitsVectors(x.dim(1), {&x, &y}), [&]<typename T, int kWidth>() {
    const dim3 grid(static_cast<unsigned>(CeilDiv<int64_t>(x.dim(1), kWidth * kThreads)),
                    static_cast<unsigned>(std::min<int64_t>(x.dim(0), 65535)));
    LaunchKernel(AddKernel<T, kWidth>, grid, kThreads, 0, stream, params);
  });
}

void LaunchGate(const GateArgs& args, cudaStream_t stream) {
  const Tensor& x = args.x;
  const int64_t row_size = x.dim(1) * x.dim(2);
  if (x.dim(0) == 0) return;
  const GateParams params = {.gate = args.gate.data(),
                             .gate_row_stride = args.gate.row_stride(),
                             .first = args.gate_first,
                             .stride = args.gate_stride,
                             .x = x.data(),
                             .x_row_stride = x.row_stride(),
                             .num_rows = x.dim(0),
                             .head_dim = static_cast<int>(x.dim(2)),
                             .row_size = static_cast<int>(row_size)};
  const bool vectors = FitsVectors(x.dim(2), {&x, &args.gate}) && args.gate_first % kVector == 0 &&
                       args.gate_stride % kVector == 0;
  DispatchFloat(x.dtype(), vectors, [&]<typename T, int kWidth>() {
    const dim3 grid(static_cast<unsigned>(CeilDiv<int64_t>(row_size, kWidth * kThreads)),
                    static_cast<unsigned>(std::min<int64_t>(x.dim(0), 65535)));
    LaunchKernel(GateKernel<T, kWidth>, grid, kThreads, 0, stream, params);
  });
}

void LaunchScale(const ScaleArgs& args, cudaStream_t stream) {
  Launch(ScaleFunction{args.factor}, args.x, stream);
}

void LaunchSoftCap(const SoftCapArgs& args, cudaStream_t stream) {
  Launch(SoftCapFunction{args.cap}, args.x, stream);
}

}  // namespace quire::cuda
