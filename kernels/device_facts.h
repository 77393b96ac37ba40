// DeviceFacts: what sizes follow from, of a device that is open or of one that is only thought of.
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/device.h"

namespace quire {

struct DeviceFacts {
  DeviceInfo info;
  MemoryInfo memory;
  // As WeightStore's.
  std::function<LinearFormat(const LinearFormat&, DType, bool has_experts)> format_for;
  std::function<int64_t(const LinearWeight&)> weight_bytes;
};

// The backend outlives the facts.
absl::StatusOr<DeviceFacts> FactsOf(Backend& backend);

// An NVIDIA GPU (Hopper) with this much memory, of which the driver takes what it usually does.
DeviceFacts FactsOfGpu(int64_t memory_bytes);

}  // namespace quire
