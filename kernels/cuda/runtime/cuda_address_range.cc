#include "kernels/cuda/runtime/cuda_address_range.h"

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/cuda/runtime/driver_entry.h"

namespace quire::cuda {

namespace {

struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity =
      DriverEntry<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(&cuMemAddressReserve) reserve =
      DriverEntry<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) free_addresses =
      DriverEntry<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemCreate) create = DriverEntry<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release = DriverEntry<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemMap) map = DriverEntry<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = DriverEntry<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access = DriverEntry<decltype(&cuMemSetAccess)>("cuMemSetAccess");
};

const Driver& TheDriver() {
  static const Driver driver;
  return driver;
}

CUmemAllocationProp DeviceMemory(int device_index) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_index};
  return properties;
}

absl::Status ToStatus(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": CUDA driver error ", static_cast<int>(result));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

}  // namespace

absl::StatusOr<int64_t> MapGranularityBytes(int device_index) {
  const CUmemAllocationProp properties = DeviceMemory(device_index);
  size_t bytes = 0;
  const absl::Status status =
      ToStatus(TheDriver().granularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
               "reading the granularity of memory");
  if (!status.ok()) return status;
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<std::unique_ptr<CudaAddressRange>> CudaAddressRange::Reserve(int device_index,
                                                                            int64_t size_bytes) {
  CUdeviceptr base = 0;
  const auto size = static_cast<size_t>(size_bytes);
  const absl::Status status =
      ToStatus(TheDriver().reserve(&base, size, /*alignment=*/0, /*addr=*/0, /*flags=*/0),
               "reserving addresses");
  if (!status.ok()) return status;
  return std::unique_ptr<CudaAddressRange>(new CudaAddressRange(device_index, base, size));
}

CudaAddressRange::~CudaAddressRange() {
  for (const Mapping& mapping : mappings_) TheDriver().unmap(mapping.begin, mapping.size_bytes);
  TheDriver().free_addresses(base_, size_bytes_);
}

absl::Status CudaAddressRange::Map(int64_t offset_bytes, int64_t size_bytes) {
  CHECK(offset_bytes >= 0 && size_bytes > 0);
  const Mapping mapping = {base_ + static_cast<size_t>(offset_bytes),
                           static_cast<size_t>(size_bytes)};
  CHECK_LE(mapping.begin + mapping.size_bytes, base_ + size_bytes_);
  const CUmemAllocationProp properties = DeviceMemory(device_index_);
  CUmemGenericAllocationHandle memory = 0;
  absl::Status status = ToStatus(
      TheDriver().create(&memory, mapping.size_bytes, &properties, /*flags=*/0), "taking memory");
  if (!status.ok()) return status;
  status = ToStatus(TheDriver().map(mapping.begin, mapping.size_bytes, /*offset=*/0, memory,
                                    /*flags=*/0),
                    "mapping memory");
  TheDriver().release(memory);  // the mapping holds it
  if (!status.ok()) return status;
  mappings_.push_back(mapping);
  const CUmemAccessDesc access = {.location = properties.location,
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return ToStatus(TheDriver().set_access(mapping.begin, mapping.size_bytes, &access, 1),
                  "giving access to memory");
}

}  // namespace quire::cuda
