// CudaWeightStore: weights row-major as files have them; how products with them are computed is
// measured. Used by the engine's thread; CreateLoader by any number of threads.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/matmul.h"
#include "kernels/weight_store.h"

namespace quire::cuda {

class CudaWeightStore : public WeightStore {
 public:
  // Both must outlive this. What Tune finds out is for this matmul.
  CudaWeightStore(CudaDevice& device, Matmul& matmul) : device_(device), matmul_(matmul) {}

  int64_t PlainBytes(int64_t out_features, int64_t in_features, DType dtype) const override;
  absl::StatusOr<std::unique_ptr<RowLoader>> CreateLoader(int64_t staging_bytes) override;
  void Fill(Stream& stream, const LinearWeight& weight, const FillWeightArgs& args) override;
  // They stay as they are.
  void Seal(Stream&, const std::vector<LinearWeight*>&, DeviceBuffer*, Progress*) override {}
  absl::Status Tune(Stream& stream, const std::vector<LinearProduct>& products,
                    Progress* progress) override;

 private:
  CudaDevice& device_;
  Matmul& matmul_;
};

}  // namespace quire::cuda
