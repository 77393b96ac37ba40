// CudaWeightStore: weights row-major as files have them, quantized ones as PackedLayout has them
// (kernels/packed_layout.h); how gemms with them are computed is measured. Used by the
// engine's thread; CreateLoader by any number of threads.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/runtime/cuda_device.h"
#include "kernels/weight_store.h"

namespace quire::cuda {

class CudaWeightStore : public WeightStore {
 public:
  // Both must outlive this. What Tune finds out is for this gemm.
  CudaWeightStore(CudaDevice& device, Gemm& gemm) : device_(device), gemm_(gemm) {}

  LinearFormat FormatFor(const LinearFormat& format, DType activations,
                         bool has_experts) const override;
  int64_t BytesOf(const LinearWeight& weight) const override;
  absl::StatusOr<std::unique_ptr<RowLoader>> CreateLoader(int64_t staging_bytes) override;
  void Fill(Stream& stream, const LinearWeight& weight, const FillWeightArgs& args) override;
  // They stay as they are.
  void Seal(Stream&, const std::vector<LinearWeight*>&, DeviceBuffer*, Progress*) override {}
  absl::Status Tune(Stream& stream, const std::vector<LinearGroup>& groups,
                    Progress* progress) override;

 private:
  CudaDevice& device_;
  Gemm& gemm_;
};

}  // namespace quire::cuda
