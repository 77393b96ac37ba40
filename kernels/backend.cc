#include "kernels/backend.h"

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/host_info.h"

namespace quire {

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const BackendOptions& options) {
  if (options.kind == DeviceKind::kCuda) {
    return absl::UnavailableError(
        "this build has no CUDA backend; use --device cpu, or build with -DQUIRE_CUDA=ON");
  }
  constexpr int kMaxThreads = 1024;
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_threads is ", options.num_threads, "; it must be 0 (one per core) to ", kMaxThreads));
  }
  const int num_threads = options.num_threads == 0 ? cpu::NumUsableCpus() : options.num_threads;
  return std::make_unique<cpu::CpuBackend>(num_threads);
}

bool CudaAvailable() { return false; }

}  // namespace quire
