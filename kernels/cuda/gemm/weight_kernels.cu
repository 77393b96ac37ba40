// AddBias and Fill: each element of the output is made by one thread.
#include "kernels/base/random_weight.h"
#include "kernels/cuda/gemm/weight_kernels.h"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/row_grid.cuh"

namespace quire::cuda {

namespace {

// Grid: (elements of a row / kRowGridThreads, rows).
// Bytes: bias read from the cache, out read and written once.
// Accumulation: one addition in float32 to a value already rounded to out's dtype.
// Limit: memory bandwidth.
template <typename T>
__global__ void __launch_bounds__(kRowGridThreads)
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
  LaunchKernel(AddBiasKernel<T>, RowGrid(num_rows, size, 1), kRowGridThreads, 0, stream,
               FloatVector(bias), static_cast<T*>(out.data()), out.row_stride(), num_rows, size);
}

// Grid: (packs of a row / kRowGridThreads, rows).
// Bytes: the weight written once.
// Accumulation: none.
// Limit: 64-bit integer arithmetic, some 25 operations an element.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kRowGridThreads)
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
      <<<RowGrid(weight.out_features, weight.in_features, kWidth), kRowGridThreads, 0, stream>>>(
          static_cast<T*>(weight.data), weight.out_features, weight.in_features, args.seed,
          args.tensor_id, RandomWeightScale(args.stddev));
}

}  // namespace

void LaunchAddBias(const Tensor& bias, const Tensor& out, cudaStream_t stream) {
  if (out.dim(0) == 0) return;
  DispatchFloat(out.dtype(), [&]<typename T>() { LaunchAdd<T>(bias, out, stream); });
}

void LaunchFill(const LinearWeight& weight, const FillWeightArgs& args, cudaStream_t stream) {
  const Tensor rows(weight.data, weight.dtype, {weight.out_features, weight.in_features});
  DispatchFloat(weight.dtype, FitsVectors(weight.in_features, {&rows}),
                [&]<typename T, int kWidth>() { LaunchFillOf<T, kWidth>(weight, args, stream); });
}

}  // namespace quire::cuda
