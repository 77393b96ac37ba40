#include "kernels/cuda/cuda_ops.h"

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/sampling/sampling.h"

namespace quire::cuda {

namespace {

// Compressed ones are the CPU's.
void CheckFormat(const LinearWeight& weight) { CHECK(!weight.is_compressed()); }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::Create(Device& device) {
  ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, Gemm::Create(device));
  ASSIGN_OR_RETURN(DeviceBuffer sample_workspace, device.Allocate(kSampleWorkspaceBytes));
  return std::unique_ptr<CudaOps>(new CudaOps(std::move(gemm), std::move(sample_workspace)));
}

void CudaOps::Enqueue(Stream& stream, const LinearArgs& args) {
  CheckFormat(*args.weight);
  gemm_->Linear(args, CudaStream::From(stream));
}
void CudaOps::Enqueue(Stream& stream, const GatedLinearArgs& args) {
  CheckFormat(*args.weight);
  gemm_->GatedLinear(args, CudaStream::From(stream));
}
void CudaOps::Enqueue(Stream& stream, const ExpertsGatedLinearArgs& args) {
  CudaStream::From(stream).Run("ExpertsGatedLinear",
                               [&](cudaStream_t s) { LaunchExpertsGatedLinear(args, s); });
}
void CudaOps::Enqueue(Stream& stream, const ExpertsLinearArgs& args) {
  CudaStream::From(stream).Run("ExpertsLinear",
                               [&](cudaStream_t s) { LaunchExpertsLinear(args, s); });
}
void CudaOps::Enqueue(Stream& stream, const SampleArgs& args) {
  CudaStream::From(stream).Run(
      "Sample", [&](cudaStream_t s) { LaunchSample(args, sample_workspace_.data(), s); });
}

#define QUIRE_OP(name)                                                                   \
  void CudaOps::Enqueue(Stream& stream, const name##Args& args) {                        \
    CudaStream::From(stream).Run(#name, [&](cudaStream_t s) { Launch##name(args, s); }); \
  }
QUIRE_FREE_OPS(QUIRE_OP)
#undef QUIRE_OP

}  // namespace quire::cuda
