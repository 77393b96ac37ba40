// TrtllmAttention: the second attention path on a GPU, for sm_90: TensorRT-LLM's contract. Decodes
// with padded block tables and sequence lengths, up to kMaxQueryLen tokens of each sequence, and
// caches of 16 or 8 bits. PlanStep lays out the step's work on the device; Run launches one kernel
// of one CTA for each multiprocessor. Both only enqueue kernels, whose launch shapes depend on
// decode_query_len alone, so both can be captured. Used by the engine's thread.
#pragma once

#include <memory>
#include <vector>

#include "kernels/attention.h"

namespace quire::cuda {

class TrtllmAttention : public AttentionBackend {
 public:
  static constexpr int kMaxQueryLen = 8;

  // The device must outlive this and its plans.
  explicit TrtllmAttention(Device& device);

  const AttentionCapabilities& capabilities() const override { return capabilities_; }
  absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePlans(
      absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) override;

 private:
  Device& device_;
  AttentionCapabilities capabilities_;
};

}  // namespace quire::cuda
