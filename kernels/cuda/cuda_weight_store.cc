#include "kernels/cuda/cuda_weight_store.h"

#include "kernels/cuda/gemm/gemm_tuner.h"
#include "kernels/cuda/gemm/weight_kernels.h"
#include "kernels/cuda/gemm/weight_uploader.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/weight_checks.h"

namespace quire::cuda {

int64_t CudaWeightStore::PlainBytes(int64_t out_features, int64_t in_features, DType dtype) const {
  return RowMajorBytes(out_features, in_features, dtype);
}

absl::StatusOr<std::unique_ptr<RowLoader>> CudaWeightStore::CreateLoader(int64_t staging_bytes) {
  return WeightUploader::Create(device_, staging_bytes);
}

void CudaWeightStore::Fill(Stream& stream, const LinearWeight& weight, const FillWeightArgs& args) {
  CheckWeight(weight);
  CudaStream::From(stream).Run("Fill", [&](cudaStream_t s) { LaunchFill(weight, args, s); });
}

absl::Status CudaWeightStore::Tune(Stream& stream, const std::vector<LinearGroup>& groups,
                                   Progress* progress) {
  for (const LinearGroup& group : groups) CheckLinearGroup(group);
  return TuneGemm(device_, gemm_, CudaStream::From(stream), groups, progress);
}

}  // namespace quire::cuda
