// Backend: one opened device with its operations and attention paths. The only place that names the
// implementations (kernels/backend.cc).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "kernels/weight_store.h"

namespace quire {

struct BackendOptions {
  DeviceKind kind = DeviceKind::kCpu;
  int num_threads = 0;       // CPU: 0 = one per core this process may use
  std::string cpu_isa = "";  // CPU: a name of kernels/cpu/runtime/isa.h; empty = the best there is
  bool cpu_compress_weights = true;  // CPU: keep large bfloat16 weights in 12 bits each, losslessly
  int device_index = 0;              // CUDA
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device& device() = 0;
  virtual Ops& ops() = 0;
  virtual WeightStore& weight_store() = 0;
  // Null where this backend does not have that path.
  virtual AttentionBackend* attention(AttentionPath path) = 0;
};

// UNAVAILABLE, saying what to change, when the device cannot be used or was not compiled in.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const BackendOptions& options);

// True when this build has the CUDA backend.
bool BuiltWithCuda();

// True when a CUDA device can be opened by this build on this machine.
bool CudaAvailable();

}  // namespace quire
