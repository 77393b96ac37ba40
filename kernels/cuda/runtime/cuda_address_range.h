// CudaAddressRange: virtual addresses of one GPU that get memory later (CUDA's virtual memory
// management). Kernels see no difference to cudaMalloc's memory: pages of 2 MiB both.
#pragma once

#include <cuda.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace quire::cuda {

// What Map's offsets and sizes are multiples of, on the current device.
absl::StatusOr<int64_t> MapGranularityBytes(int device_index);

class CudaAddressRange : public AddressRange {
 public:
  static absl::StatusOr<std::unique_ptr<CudaAddressRange>> Reserve(int device_index,
                                                                   int64_t size_bytes);
  ~CudaAddressRange() override;
  CudaAddressRange(const CudaAddressRange&) = delete;
  CudaAddressRange& operator=(const CudaAddressRange&) = delete;

  void* data() const override { return reinterpret_cast<void*>(base_); }
  absl::Status Map(int64_t offset_bytes, int64_t size_bytes) override;

 private:
  struct Mapping {
    CUdeviceptr begin;
    size_t size_bytes;
  };

  CudaAddressRange(int device_index, CUdeviceptr base, size_t size_bytes)
      : device_index_(device_index), base_(base), size_bytes_(size_bytes) {}

  const int device_index_;
  const CUdeviceptr base_;
  const size_t size_bytes_;
  std::vector<Mapping> mappings_;
};

}  // namespace quire::cuda
