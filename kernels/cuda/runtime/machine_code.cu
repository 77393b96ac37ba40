#include <cuda_runtime_api.h>

#include "kernels/cuda/runtime/machine_code.h"

namespace quire::cuda {

namespace {

// Only asked whether it could be launched.
__global__ void EmptyKernel() {}

}  // namespace

bool HasKernelsForCurrentDevice() {
  cudaFuncAttributes attributes;
  const bool found = cudaFuncGetAttributes(&attributes, EmptyKernel) == cudaSuccess;
  cudaGetLastError();
  return found;
}

}  // namespace quire::cuda
