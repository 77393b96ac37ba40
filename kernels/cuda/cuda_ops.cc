#include "kernels/cuda/cuda_ops.h"

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/attention/merge_state.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/sampling.h"

namespace quire::cuda {

namespace {

template <typename Args>
void Launch(Stream& stream, const char* name, const Args& args,
            void (*launch)(const Args&, cudaStream_t)) {
  CudaStream::From(stream).Run(name, [&](cudaStream_t s) { launch(args, s); });
}

// Compressed ones are the CPU's.
void CheckFormat(const LinearWeight& weight) { CHECK(weight.format == WeightFormat::kPlain); }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::Create(Device& device) {
  ASSIGN_OR_RETURN(std::unique_ptr<Matmul> matmul, Matmul::Create(device));
  ASSIGN_OR_RETURN(DeviceBuffer sample_workspace, device.Allocate(kSampleWorkspaceBytes));
  return std::unique_ptr<CudaOps>(new CudaOps(std::move(matmul), std::move(sample_workspace)));
}

void CudaOps::Enqueue(Stream& stream, const LinearArgs& args) {
  CheckFormat(*args.weight);
  matmul_->Linear(args, CudaStream::From(stream));
}
void CudaOps::Enqueue(Stream& stream, const GatedLinearArgs& args) {
  CheckFormat(*args.weight);
  matmul_->GatedLinear(args, CudaStream::From(stream));
}
void CudaOps::Enqueue(Stream& stream, const SampleArgs& args) {
  CudaStream::From(stream).Run(
      "Sample", [&](cudaStream_t s) { LaunchSample(args, sample_workspace_.data(), s); });
}
void CudaOps::Enqueue(Stream& stream, const EmbeddingArgs& args) {
  CheckFormat(*args.table);
  Launch(stream, "Embedding", args, LaunchEmbedding);
}
void CudaOps::Enqueue(Stream& stream, const RmsNormArgs& args) {
  Launch(stream, "RmsNorm", args, LaunchRmsNorm);
}
void CudaOps::Enqueue(Stream& stream, const RopeAndStoreKvArgs& args) {
  Launch(stream, "RopeAndStoreKv", args, LaunchRopeAndStoreKv);
}
void CudaOps::Enqueue(Stream& stream, const GatedActivationArgs& args) {
  Launch(stream, "GatedActivation", args, LaunchGatedActivation);
}
void CudaOps::Enqueue(Stream& stream, const ScaleArgs& args) {
  Launch(stream, "Scale", args, LaunchScale);
}
void CudaOps::Enqueue(Stream& stream, const SoftCapArgs& args) {
  Launch(stream, "SoftCap", args, LaunchSoftCap);
}
void CudaOps::Enqueue(Stream& stream, const GatherRowsArgs& args) {
  Launch(stream, "GatherRows", args, LaunchGatherRows);
}
void CudaOps::Enqueue(Stream& stream, const UpdateBlockTablesArgs& args) {
  Launch(stream, "UpdateBlockTables", args, LaunchUpdateBlockTables);
}
void CudaOps::Enqueue(Stream& stream, const ResetTokenCountsArgs& args) {
  Launch(stream, "ResetTokenCounts", args, LaunchResetTokenCounts);
}
void CudaOps::Enqueue(Stream& stream, const MergeStateArgs& args) {
  if (args.out.dim(0) > 0) Launch(stream, "MergeState", args, LaunchMergeState);
}
void CudaOps::Enqueue(Stream& stream, const MergeStatesArgs& args) {
  if (args.out.dim(0) > 0) Launch(stream, "MergeStates", args, LaunchMergeStates);
}

}  // namespace quire::cuda
