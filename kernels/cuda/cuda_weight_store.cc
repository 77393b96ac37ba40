#include "kernels/cuda/cuda_weight_store.h"

#include "kernels/cuda/gemm/gemm_tuner.h"
#include "kernels/cuda/gemm/quantized/pack_weights.h"
#include "kernels/cuda/gemm/quantized/quantized_gemm.h"
#include "kernels/cuda/gemm/weight_kernels.h"
#include "kernels/cuda/gemm/weight_uploader.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/packed_layout.h"
#include "kernels/weight_checks.h"

namespace quire::cuda {

LinearFormat CudaWeightStore::FormatFor(const LinearFormat& format, DType activations,
                                        bool has_experts) const {
  return QuantizedFormatFor(format, activations, has_experts);
}

int64_t CudaWeightStore::BytesOf(const LinearWeight& weight) const {
  return weight.format.quantized() ? PackedLayout(weight).total_bytes : weight.size_bytes();
}

absl::StatusOr<std::unique_ptr<RowLoader>> CudaWeightStore::CreateLoader(int64_t staging_bytes) {
  return WeightUploader::Create(device_, staging_bytes);
}

void CudaWeightStore::Fill(Stream& stream, const LinearWeight& weight, const FillWeightArgs& args) {
  CheckWeight(weight);
  CudaStream::From(stream).Run("Fill", [&](cudaStream_t s) {
    weight.format.quantized() ? LaunchFillQuantized(weight, args, s) : LaunchFill(weight, args, s);
  });
}

absl::Status CudaWeightStore::Tune(Stream& stream, const std::vector<LinearGroup>& groups,
                                   Progress* progress) {
  for (const LinearGroup& group : groups) CheckLinearGroup(group);
  return TuneGemm(device_, gemm_, CudaStream::From(stream), groups, progress);
}

}  // namespace quire::cuda
