// OpenCudaBackend: a GPU as a Backend. Only kernels/backend.cc calls it; includes no CUDA header.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace quire::cuda {

// UNAVAILABLE, saying what to change, when the device cannot be used.
absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(int device_index);

// Whether the first device could be opened.
bool DeviceAvailable();

}  // namespace quire::cuda
