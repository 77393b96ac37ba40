// CpuOps: Ops on the CPU. Each call checks its arguments and enqueues one task, which calls the
// operation's free function on the stream's thread. Used by the engine's thread.
#pragma once

#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/ops.h"

namespace quire::cpu {

class CpuOps : public Ops {
 public:
  // The device must outlive this and every task enqueued through it.
  CpuOps(Isa isa, bool compress_weights, CpuDevice& device)
      : compress_weights_(compress_weights), device_(device), pool_(device.pool()), gemm_(isa) {}

  absl::Status TuneLinear(Stream& stream, const std::vector<LinearProduct>& products,
                          Progress* progress) override;
  int64_t LinearBytes(int64_t out_features, int64_t in_features, DType dtype) const override;
  absl::StatusOr<std::unique_ptr<RowLoader>> CreateRowLoader(int64_t staging_bytes) override;
  void FillLinear(Stream& stream, const LinearWeight& weight, const FillLinearArgs& args) override;
  void SealLinears(Stream& stream, const std::vector<LinearWeight*>& weights, DeviceBuffer* memory,
                   Progress* progress) override;

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
  void CompressAll(const std::vector<LinearWeight*>& weights, DeviceBuffer* memory,
                   Progress* progress);

  const bool compress_weights_;
  CpuDevice& device_;
  ThreadPool& pool_;
  Gemm gemm_;  // used by the tasks, one after the other
};

}  // namespace quire::cpu
