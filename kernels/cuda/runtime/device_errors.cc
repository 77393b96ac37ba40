#include "kernels/cuda/runtime/device_errors.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace quire::cuda {

std::string ErrorText(cudaError_t error, const char* what) {
  return absl::StrCat(what, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
}

absl::Status ToStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  if (error == cudaErrorMemoryAllocation) {
    return absl::ResourceExhaustedError(ErrorText(error, what));
  }
  return absl::InternalError(ErrorText(error, what));
}

void DeviceErrors::Note(cudaError_t error, const char* what) { Note(ToStatus(error, what)); }

void DeviceErrors::Note(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  first_.Update(status);
}

absl::Status DeviceErrors::status() const {
  absl::MutexLock lock(&mutex_);
  return first_;
}

}  // namespace quire::cuda
