#include "kernels/backend.h"

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/runtime/isa.h"
#include "kernels/host_limits.h"
#ifdef QUIRE_CUDA
#include "kernels/cuda/cuda_backend.h"
#endif

namespace quire {

namespace {

absl::StatusOr<std::unique_ptr<Backend>> OpenCpu(const BackendOptions& options) {
  constexpr int kMaxThreads = 1024;
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_threads is ", options.num_threads, "; it must be 0 (one per core) to ", kMaxThreads));
  }
  const int num_threads = options.num_threads == 0 ? NumUsableCpus() : options.num_threads;
  ASSIGN_OR_RETURN(const cpu::Isa isa, cpu::ChooseIsa(options.cpu_isa));
  return std::make_unique<cpu::CpuBackend>(num_threads, isa, options.cpu_compress_weights);
}

absl::StatusOr<std::unique_ptr<Backend>> OpenCuda(const BackendOptions& options) {
#ifdef QUIRE_CUDA
  return cuda::OpenCudaBackend(options.device_index);
#else
  (void)options;
  return absl::UnavailableError(
      "this build has no CUDA backend; use --device cpu, or build with -DQUIRE_CUDA=ON");
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const BackendOptions& options) {
  return options.kind == DeviceKind::kCuda ? OpenCuda(options) : OpenCpu(options);
}

bool BuiltWithCuda() {
#ifdef QUIRE_CUDA
  return true;
#else
  return false;
#endif
}

bool CudaAvailable() {
#ifdef QUIRE_CUDA
  return cuda::DeviceAvailable();
#else
  return false;
#endif
}

}  // namespace quire
