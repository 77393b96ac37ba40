// DeviceErrors: the first error of a CUDA device, which stays: after it nothing the device returns
// can be trusted. Shared by the device, its streams and its events; any thread.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace quire::cuda {

// "<what>: <CUDA's name and sentence for the error>".
std::string ErrorText(cudaError_t error, const char* what);

// OK; RESOURCE_EXHAUSTED when the device or the host has no memory for it; else INTERNAL.
absl::Status ToStatus(cudaError_t error, const char* what);

class DeviceErrors {
 public:
  // Remembers an error unless there is one already; success is not an error.
  void Note(cudaError_t error, const char* what);
  // The same for a failure that has no CUDA code.
  void Note(const absl::Status& status);
  // OK, or the first error.
  absl::Status status() const;

 private:
  mutable absl::Mutex mutex_;
  absl::Status first_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire::cuda
