// DeviceFacts: the facts that sizes follow from, about an open device or, for plans, any other one.
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

// An NVIDIA GPU (Hopper) with this much memory; the driver takes its usual part of it.
DeviceFacts FactsOfGpu(int64_t memory_bytes);

}  // namespace quire
