#include "kernels/device_facts.h"

#include <algorithm>

#include "kernels/base/status_macros.h"
#include "kernels/linear_weight.h"

namespace quire {

namespace {

// What the driver and a process' context take of a GPU before anything is allocated: 569 MiB on an
// H200 with driver 580.
constexpr int64_t kUsualGpuContextBytes = int64_t{570} << 20;

}  // namespace

absl::StatusOr<DeviceFacts> FactsOf(Backend& backend) {
  DeviceFacts facts;
  facts.info = backend.device().info();
  ASSIGN_OR_RETURN(facts.memory, backend.device().Memory());
  facts.plain_bytes = [&store = backend.weight_store()](int64_t out_features, int64_t in_features,
                                                        DType dtype) {
    return store.PlainBytes(out_features, in_features, dtype);
  };
  return facts;
}

DeviceFacts FactsOfGpu(int64_t memory_bytes) {
  DeviceFacts facts;
  facts.info = {.kind = DeviceKind::kCuda,
                .name = "a GPU that is not here",
                .activation_dtypes = GpuActivationDTypes()};
  facts.memory = {.free_bytes = std::max<int64_t>(0, memory_bytes - kUsualGpuContextBytes),
                  .total_bytes = memory_bytes};
  facts.plain_bytes = RowMajorBytes;
  return facts;
}

}  // namespace quire
