#include "kernels/cuda/cuda_ops.h"

#include "kernels/arg_checks.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/product_tuner.h"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/weight_uploader.h"

namespace quire::cuda {

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::Create(CudaDevice& device) {
  ASSIGN_OR_RETURN(std::unique_ptr<Matmul> matmul, Matmul::Create(device));
  ASSIGN_OR_RETURN(DeviceBuffer sample_workspace, device.Allocate(kSampleWorkspaceBytes));
  return std::unique_ptr<CudaOps>(
      new CudaOps(device, std::move(matmul), std::move(sample_workspace)));
}

absl::Status CudaOps::TuneLinear(Stream& stream, const std::vector<LinearProduct>& products,
                                 Progress* progress) {
  for (const LinearProduct& product : products) CheckProduct(product);
  return TuneProducts(device_, *matmul_, CudaStream::From(stream), products, progress);
}

int64_t CudaOps::LinearBytes(int64_t out_features, int64_t in_features, DType dtype) const {
  return out_features * in_features * DTypeBytes(dtype);
}

absl::StatusOr<std::unique_ptr<RowLoader>> CudaOps::CreateRowLoader(int64_t staging_bytes) {
  return WeightUploader::Create(device_, staging_bytes);
}

void CudaOps::FillLinear(Stream& stream, const LinearWeight& weight, const FillLinearArgs& args) {
  CheckWeight(weight);
  CudaStream::From(stream).Run("FillLinear",
                               [&](cudaStream_t s) { LaunchFillLinear(weight, args, s); });
}

void CudaOps::Embedding(Stream& stream, const EmbeddingArgs& args) {
  CheckArgs(args);
  CudaStream::From(stream).Run("Embedding", [&](cudaStream_t s) { LaunchEmbedding(args, s); });
}

void CudaOps::RmsNorm(Stream& stream, const RmsNormArgs& args) {
  CheckArgs(args);
  CudaStream::From(stream).Run("RmsNorm", [&](cudaStream_t s) { LaunchRmsNorm(args, s); });
}

void CudaOps::Linear(Stream& stream, const LinearArgs& args) {
  CheckArgs(args);
  matmul_->Linear(args, CudaStream::From(stream));
}

void CudaOps::RopeAndStoreKv(Stream& stream, const RopeAndStoreKvArgs& args) {
  CheckArgs(args);
  CudaStream::From(stream).Run("RopeAndStoreKv",
                               [&](cudaStream_t s) { LaunchRopeAndStoreKv(args, s); });
}

void CudaOps::GatedActivation(Stream& stream, const GatedActivationArgs& args) {
  CheckArgs(args);
  CudaStream::From(stream).Run("GatedActivation",
                               [&](cudaStream_t s) { LaunchGatedActivation(args, s); });
}

void CudaOps::GatedLinear(Stream& stream, const GatedLinearArgs& args) {
  CheckArgs(args.Product());
  CheckArgs(args.Activate());
  matmul_->GatedLinear(args, CudaStream::From(stream));
}

void CudaOps::Scale(Stream& stream, const ScaleArgs& args) {
  CheckArgs(args);
  CudaStream::From(stream).Run("Scale", [&](cudaStream_t s) { LaunchScale(args, s); });
}

void CudaOps::SoftCap(Stream& stream, const SoftCapArgs& args) {
  CheckArgs(args);
  CudaStream::From(stream).Run("SoftCap", [&](cudaStream_t s) { LaunchSoftCap(args, s); });
}

void CudaOps::GatherRows(Stream& stream, const GatherRowsArgs& args) {
  CheckArgs(args);
  CudaStream::From(stream).Run("GatherRows", [&](cudaStream_t s) { LaunchGatherRows(args, s); });
}

void CudaOps::UpdateBlockTables(Stream& stream, const UpdateBlockTablesArgs& args) {
  CudaStream::From(stream).Run("UpdateBlockTables",
                               [&](cudaStream_t s) { LaunchUpdateBlockTables(args, s); });
}

void CudaOps::ResetTokenCounts(Stream& stream, const ResetTokenCountsArgs& args) {
  CheckArgs(args);
  CudaStream::From(stream).Run("ResetTokenCounts",
                               [&](cudaStream_t s) { LaunchResetTokenCounts(args, s); });
}

void CudaOps::Sample(Stream& stream, const SampleArgs& args) {
  CheckArgs(args);
  CudaStream::From(stream).Run(
      "Sample", [&](cudaStream_t s) { LaunchSample(args, sample_workspace_.data(), s); });
}

}  // namespace quire::cuda
