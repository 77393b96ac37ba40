// Functions of the driver's library, which is not linked, so that programs start where there is
// none. Any thread, once a device has been opened.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/base/check.h"

namespace quire::cuda {

// `name` as CUDA 12 has it, of the type of that function:
// DriverEntry<decltype(&cuMemMap)>("cuMemMap").
template <typename Function>
Function DriverEntry(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  constexpr unsigned int kSinceVersion = 12000;
  CHECK(cudaGetDriverEntryPointByVersion(name, &function, kSinceVersion, cudaEnableDefault,
                                         &found) == cudaSuccess)
      << name;
  CHECK(found == cudaDriverEntryPointSuccess) << name;
  return reinterpret_cast<Function>(function);
}

}  // namespace quire::cuda
