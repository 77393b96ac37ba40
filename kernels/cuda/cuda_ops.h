// CudaOps: Ops on a GPU. Each call enqueues one or two kernels. Used by the engine's thread.
#pragma once

#include <memory>
#include <utility>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/matmul.h"
#include "kernels/ops.h"

namespace quire::cuda {

class CudaOps : public Ops {
 public:
  static absl::StatusOr<std::unique_ptr<CudaOps>> Create(Device& device);

  Matmul& matmul() { return *matmul_; }

 private:
  CudaOps(std::unique_ptr<Matmul> matmul, DeviceBuffer sample_workspace)
      : matmul_(std::move(matmul)), sample_workspace_(std::move(sample_workspace)) {}

  void Enqueue(Stream& stream, const EmbeddingArgs& args) override;
  void Enqueue(Stream& stream, const RmsNormArgs& args) override;
  void Enqueue(Stream& stream, const LinearArgs& args) override;
  void Enqueue(Stream& stream, const RopeAndStoreKvArgs& args) override;
  void Enqueue(Stream& stream, const GatedActivationArgs& args) override;
  void Enqueue(Stream& stream, const GatedLinearArgs& args) override;
  void Enqueue(Stream& stream, const ScaleArgs& args) override;
  void Enqueue(Stream& stream, const SoftCapArgs& args) override;
  void Enqueue(Stream& stream, const GatherRowsArgs& args) override;
  void Enqueue(Stream& stream, const UpdateBlockTablesArgs& args) override;
  void Enqueue(Stream& stream, const ResetTokenCountsArgs& args) override;
  void Enqueue(Stream& stream, const SampleArgs& args) override;
  void Enqueue(Stream& stream, const MergeStateArgs& args) override;
  void Enqueue(Stream& stream, const MergeStatesArgs& args) override;

  const std::unique_ptr<Matmul> matmul_;
  const DeviceBuffer sample_workspace_;
};

}  // namespace quire::cuda
