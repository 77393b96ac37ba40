#include "kernels/device_facts.h"

#include <algorithm>

#include "kernels/base/status_macros.h"
#include "kernels/linear_weight.h"
#include "kernels/packed_layout.h"

namespace quire {

namespace {

// The memory of a GPU that the driver and a process' context take before anything is allocated: 569
// MiB on an H200 with driver 580.
constexpr int64_t kUsualGpuContextBytes = int64_t{570} << 20;

}  // namespace

absl::StatusOr<DeviceFacts> FactsOf(Backend& backend) {
  DeviceFacts facts;
  facts.info = backend.device().info();
  ASSIGN_OR_RETURN(facts.memory, backend.device().Memory());
  WeightStore& store = backend.weight_store();
  facts.format_for = [&store](const LinearFormat& format, DType activations, bool has_experts) {
    return store.FormatFor(format, activations, has_experts);
  };
  facts.weight_bytes = [&store](const LinearWeight& weight) { return store.BytesOf(weight); };
  return facts;
}

DeviceFacts FactsOfGpu(int64_t memory_bytes) {
  DeviceFacts facts;
  facts.info = {.kind = DeviceKind::kCuda,
                .name = "a GPU that is not here",
                .activation_dtypes = GpuActivationDTypes()};
  facts.memory = {.free_bytes = std::max<int64_t>(0, memory_bytes - kUsualGpuContextBytes),
                  .total_bytes = memory_bytes};
  facts.format_for = PackedFormat;
  facts.weight_bytes = [](const LinearWeight& weight) {
    return weight.format.quantized() ? PackedLayout(weight).total_bytes : weight.size_bytes();
  };
  return facts;
}

}  // namespace quire
