// CpuWeightStore: weights packed for the micro-kernel, large bfloat16 ones compressed in the end,
// quantized ones in their own format. Used by the engine's thread; its loaders by any.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/runtime/cpu_device.h"
#include "kernels/weight_store.h"

namespace quire::cpu {

class CpuWeightStore : public WeightStore {
 public:
  // The device must outlive this and every task enqueued through it.
  CpuWeightStore(bool compress, CpuDevice& device) : compress_(compress), device_(device) {}

  LinearFormat FormatFor(const LinearFormat& format, DType activations,
                         bool has_experts) const override;
  int64_t BytesOf(const LinearWeight& weight) const override;
  absl::StatusOr<std::unique_ptr<RowLoader>> CreateLoader(int64_t staging_bytes) override;
  void Fill(Stream& stream, const LinearWeight& weight, const FillWeightArgs& args) override;
  void Seal(Stream& stream, const std::vector<LinearWeight*>& weights, DeviceBuffer* memory,
            Progress* progress) override;
  // There is one way to compute a gemm here.
  absl::Status Tune(Stream& stream, const std::vector<LinearGroup>& groups,
                    Progress* progress) override;

 private:
  void CompressAll(const std::vector<LinearWeight*>& weights, DeviceBuffer* memory,
                   Progress* progress);

  const bool compress_;
  CpuDevice& device_;
};

}  // namespace quire::cpu
