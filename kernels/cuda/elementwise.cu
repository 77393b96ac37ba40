// GatedActivation, AddBias and Fill: each element of the output is made by one thread.
#include <algorithm>

#include "kernels/base/random_weight.h"
#include "kernels/base/types.h"
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"

namespace quire::cuda {

namespace {

constexpr int kThreads = 256;

// A CTA column per kThreads packs of a row; rows are taken in turn beyond the grid's height.
dim3 RowGrid(int64_t num_rows, int64_t row_size, int width) {
  const int64_t num_packs = CeilDiv<int64_t>(row_size, width);
  return dim3(static_cast<unsigned>(CeilDiv<int64_t>(num_packs, kThreads)),
              static_cast<unsigned>(std::min<int64_t>(num_rows, 65535)));
}

__device__ int64_t FirstElement(int width) {
  return (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * width;
}

// Grid: (packs of a row / kThreads, rows).
// Bytes: gate and up read once, out written once.
// Accumulation: none.
// Limit: memory bandwidth; launch latency below some 2 MB.
template <typename Function, typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    GatedActivationKernel(const T* gate_up, int64_t in_stride, T* out, int64_t out_stride,
                          int64_t num_rows, int64_t size) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t i = FirstElement(kWidth);
  if (i >= size) return;
  for (int64_t row = blockIdx.y; row < num_rows; row += gridDim.y) {
    float gate[kWidth], up[kWidth];
    Load(gate_up + row * in_stride + i, gate);
    Load(gate_up + row * in_stride + size + i, up);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) up[j] *= Function()(gate[j]);
    Store(up, out + row * out_stride + i);
  }
}

template <typename T, int kWidth>
void LaunchGated(const GatedActivationArgs& args, cudaStream_t stream) {
  const int64_t num_rows = args.out.dim(0), size = args.out.dim(1);
  const auto kernel = args.activation == Activation::kSilu
                          ? GatedActivationKernel<Silu, T, kWidth>
                          : GatedActivationKernel<GeluTanh, T, kWidth>;
  LaunchKernel(kernel, RowGrid(num_rows, size, kWidth), kThreads, 0, stream,
               static_cast<const T*>(args.gate_up.data()), args.gate_up.row_stride(),
               static_cast<T*>(args.out.data()), args.out.row_stride(), num_rows, size);
}

// Grid: (elements of a row / kThreads, rows).
// Bytes: bias read from the cache, out read and written once.
// Accumulation: one addition in float32 to a value already rounded to out's dtype.
// Limit: memory bandwidth.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    AddBiasKernel(const FloatVector bias, T* out, int64_t stride, int64_t num_rows, int64_t size) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t i = FirstElement(1);
  if (i >= size) return;
  float addend[1], value[1];
  bias.LoadAt(i, addend);
  for (int64_t row = blockIdx.y; row < num_rows; row += gridDim.y) {
    Load(out + row * stride + i, value);
    value[0] += addend[0];
    Store(value, out + row * stride + i);
  }
}

template <typename T>
void LaunchAdd(const Tensor& bias, const Tensor& out, cudaStream_t stream) {
  const int64_t num_rows = out.dim(0), size = out.dim(1);
  LaunchKernel(AddBiasKernel<T>, RowGrid(num_rows, size, 1), kThreads, 0, stream, FloatVector(bias),
               static_cast<T*>(out.data()), out.row_stride(), num_rows, size);
}

// Grid: (packs of a row / kThreads, rows).
// Bytes: the weight written once.
// Accumulation: none.
// Limit: 64-bit integer arithmetic, some 25 operations an element.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    FillKernel(T* weight, int64_t num_rows, int64_t size, uint64_t seed, uint64_t tensor_id,
               float scale) {
  const int64_t i = FirstElement(kWidth);
  if (i >= size) return;
  for (int64_t row = blockIdx.y; row < num_rows; row += gridDim.y) {
    const uint64_t key = RandomRowKey(seed, tensor_id, row);
    float values[kWidth];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      values[j] = static_cast<float>(RandomByteSum(key, i + j)) * scale;
    }
    Store(values, weight + row * size + i);
  }
}

template <typename T, int kWidth>
void LaunchFillOf(const LinearWeight& weight, const FillWeightArgs& args, cudaStream_t stream) {
  FillKernel<T, kWidth>
      <<<RowGrid(weight.out_features, weight.in_features, kWidth), kThreads, 0, stream>>>(
          static_cast<T*>(weight.data), weight.out_features, weight.in_features, args.seed,
          args.tensor_id, RandomWeightScale(args.stddev));
}

}  // namespace

void LaunchGatedActivation(const GatedActivationArgs& args, cudaStream_t stream) {
  if (args.out.dim(0) == 0) return;
  const bool vectors = FitsVectors(args.out.dim(1), {&args.gate_up, &args.out});
  if (args.out.dtype() == DType::kF32) {
    (vectors ? LaunchGated<float, kVector> : LaunchGated<float, 1>)(args, stream);
  } else {
    (vectors ? LaunchGated<__nv_bfloat16, kVector> : LaunchGated<__nv_bfloat16, 1>)(args, stream);
  }
}

void LaunchAddBias(const Tensor& bias, const Tensor& out, cudaStream_t stream) {
  if (out.dim(0) == 0) return;
  (out.dtype() == DType::kF32 ? LaunchAdd<float> : LaunchAdd<__nv_bfloat16>)(bias, out, stream);
}

void LaunchFill(const LinearWeight& weight, const FillWeightArgs& args, cudaStream_t stream) {
  const Tensor rows(weight.data, weight.dtype, {weight.out_features, weight.in_features});
  const bool vectors = FitsVectors(weight.in_features, {&rows});
  if (weight.dtype == DType::kF32) {
    (vectors ? LaunchFillOf<float, kVector> : LaunchFillOf<float, 1>)(weight, args, stream);
  } else {
    (vectors ? LaunchFillOf<__nv_bfloat16, kVector> : LaunchFillOf<__nv_bfloat16, 1>)(weight, args,
                                                                                      stream);
  }
}

}  // namespace quire::cuda
