// CudaOps: Ops on a GPU. Each call checks its arguments and enqueues one or two kernels. Used by
// the engine's thread; CreateRowLoader by any number of threads.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/matmul.h"
#include "kernels/ops.h"

namespace quire::cuda {

class CudaOps : public Ops {
 public:
  // The device must outlive this.
  static absl::StatusOr<std::unique_ptr<CudaOps>> Create(CudaDevice& device);

  absl::Status TuneLinear(Stream& stream, const std::vector<LinearProduct>& products,
                          Progress* progress) override;
  int64_t LinearBytes(int64_t out_features, int64_t in_features, DType dtype) const override;
  absl::StatusOr<std::unique_ptr<RowLoader>> CreateRowLoader(int64_t staging_bytes) override;
  void FillLinear(Stream& stream, const LinearWeight& weight, const FillLinearArgs& args) override;
  // They stay as they are.
  void SealLinears(Stream&, const std::vector<LinearWeight*>&, DeviceBuffer*, Progress*) override {}

  void Embedding(Stream& stream, const EmbeddingArgs& args) override;
  void RmsNorm(Stream& stream, const RmsNormArgs& args) override;
  void Linear(Stream& stream, const LinearArgs& args) override;
  void RopeAndStoreKv(Stream& stream, const RopeAndStoreKvArgs& args) override;
  void GatedActivation(Stream& stream, const GatedActivationArgs& args) override;
  void GatedLinear(Stream& stream, const GatedLinearArgs& args) override;
  void Scale(Stream& stream, const ScaleArgs& args) override;
  void SoftCap(Stream& stream, const SoftCapArgs& args) override;
  void GatherRows(Stream& stream, const GatherRowsArgs& args) override;
  void UpdateBlockTables(Stream& stream, const UpdateBlockTablesArgs& args) override;
  void ResetTokenCounts(Stream& stream, const ResetTokenCountsArgs& args) override;
  void Sample(Stream& stream, const SampleArgs& args) override;

 private:
  CudaOps(CudaDevice& device, std::unique_ptr<Matmul> matmul, DeviceBuffer sample_workspace)
      : device_(device),
        matmul_(std::move(matmul)),
        sample_workspace_(std::move(sample_workspace)) {}

  CudaDevice& device_;
  const std::unique_ptr<Matmul> matmul_;
  const DeviceBuffer sample_workspace_;
};

}  // namespace quire::cuda
