#include "kernels/cuda/runtime/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/runtime/cuda_address_range.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/cuda/runtime/machine_code.h"

namespace quire::cuda {

namespace {

// ToStatus for a call whose error is reported here: the next launch must not report it again.
absl::Status TakeError(cudaError_t error, const char* what) {
  if (error != cudaSuccess) cudaGetLastError();
  return ToStatus(error, what);
}

// The first calls fail where another program has the device or its memory.
absl::Status OpeningError(cudaError_t error, const char* what) {
  const absl::Status status = TakeError(error, what);
  if (status.ok()) return status;
  return absl::UnavailableError(absl::StrCat(
      status.message(), "; end other programs that use this GPU, or use --device cpu"));
}

absl::Status CheckDeviceIndex(int device_index) {
  int num_devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&num_devices); error != cudaSuccess) {
    cudaGetLastError();
    return absl::UnavailableError(
        absl::StrCat(ErrorText(error, "no CUDA device can be used"),
                     "; use --device cpu, or make a GPU and its driver visible to this process"));
  }
  if (device_index < 0 || device_index >= num_devices) {
    return absl::UnavailableError(absl::StrCat("there is no CUDA device ", device_index,
                                               "; this process sees ", num_devices,
                                               ", numbered from 0"));
  }
  return absl::OkStatus();
}

// Frees device or pinned memory; an error was or will be reported by what used the memory.
template <cudaError_t (*kFree)(void*)>
void Free(void* data) {
  kFree(data);
  cudaGetLastError();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int device_index) {
  RETURN_IF_ERROR(CheckDeviceIndex(device_index));
  cudaDeviceProp properties;
  RETURN_IF_ERROR(OpeningError(cudaSetDevice(device_index), "opening the CUDA device"));
  RETURN_IF_ERROR(
      OpeningError(cudaGetDeviceProperties(&properties, device_index), "reading its properties"));
  const int sm_version = properties.major * 10 + properties.minor;
  if (!HasKernelsForCurrentDevice()) {
    const bool has_kernels_elsewhere = sm_version >= 80 && sm_version <= 90;
    return absl::UnavailableError(absl::StrCat(
        "this build has no kernels for ", properties.name, " (sm_", sm_version, "); ",
        has_kernels_elsewhere ? "build for it, which tools/quickstart --cuda does"
                              : "there are some for compute capability 8.0 to 9.0 so far",
        ", or use --device cpu"));
  }
  ASSIGN_OR_RETURN(const int64_t map_granularity_bytes, MapGranularityBytes(device_index));
  DeviceInfo info = {.kind = DeviceKind::kCuda,
                     .name = properties.name,
                     .activation_dtypes = GpuActivationDTypes(),
                     .sm_version = sm_version,
                     .num_sms = properties.multiProcessorCount,
                     .use_graphs = true,
                     .map_granularity_bytes = map_granularity_bytes};
  return std::unique_ptr<CudaDevice>(new CudaDevice(device_index, std::move(info)));
}

void CudaDevice::BindThread() const {
  errors_->Note(cudaSetDevice(index_), "binding a thread to the device");
}

absl::StatusOr<MemoryInfo> CudaDevice::Memory() const {
  size_t free_bytes = 0, total_bytes = 0;
  RETURN_IF_ERROR(TakeError(cudaMemGetInfo(&free_bytes, &total_bytes), "reading device memory"));
  return MemoryInfo{.free_bytes = static_cast<int64_t>(free_bytes),
                    .total_bytes = static_cast<int64_t>(total_bytes)};
}

absl::StatusOr<DeviceBuffer> CudaDevice::Allocate(int64_t size_bytes) {
  CHECK_GE(size_bytes, 0);
  void* data = nullptr;
  const auto wanted_bytes = static_cast<size_t>(std::max<int64_t>(size_bytes, 1));
  if (cudaMalloc(&data, wanted_bytes) != cudaSuccess) {
    cudaGetLastError();
    ASSIGN_OR_RETURN(const MemoryInfo memory, Memory());
    return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", size_bytes,
                                                     " bytes of device memory (", memory.free_bytes,
                                                     " bytes are free)"));
  }
  return DeviceBuffer(data, size_bytes, Free<cudaFree>);
}

absl::StatusOr<std::unique_ptr<AddressRange>> CudaDevice::ReserveAddresses(int64_t size_bytes) {
  return CudaAddressRange::Reserve(index_, size_bytes);
}

absl::StatusOr<DeviceBuffer> CudaDevice::AllocatePinned(int64_t size_bytes) {
  CHECK_GE(size_bytes, 0);
  void* data = nullptr;
  const auto wanted_bytes = static_cast<size_t>(std::max<int64_t>(size_bytes, 1));
  if (cudaHostAlloc(&data, wanted_bytes, cudaHostAllocPortable) != cudaSuccess) {
    cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", size_bytes, " bytes of pinned host memory"));
  }
  std::memset(data, 0, wanted_bytes);
  return DeviceBuffer(data, size_bytes, Free<cudaFreeHost>);
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::CreateStream() {
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(
      TakeError(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream"));
  return std::make_unique<CudaStream>(stream, errors_);
}

absl::StatusOr<std::unique_ptr<Event>> CudaDevice::CreateEvent(bool timed) {
  cudaEvent_t event = nullptr;
  const unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
  RETURN_IF_ERROR(TakeError(cudaEventCreateWithFlags(&event, flags), "creating an event"));
  return std::make_unique<CudaEvent>(event, errors_);
}

}  // namespace quire::cuda
