// TrtllmAttention: the second attention path on a GPU, for sm_90: TensorRT-LLM's contract, padded
// block tables and sequence lengths, caches of 16 or 8 bits. Decodes have up to kMaxQueryLen tokens
// of each sequence and kernels of their own: PlanStep lays out the step's work on the device, Run
// launches one CTA for each multiprocessor. Context, everything else, runs on the native path's
// kernels for prompts, which read the padded tables as they are. All of these only enqueue kernels,
// whose launch shapes depend only on decode_query_len and the number of sequences. Used by the
// engine's thread.
#pragma once

#include <memory>
#include <vector>

#include "kernels/attention.h"

namespace quire::cuda {

class TrtllmAttention : public AttentionBackend {
 public:
  static constexpr int kMaxQueryLen = 8;
  // Of a step: the planning kernel has their lengths in its shared memory.
  static constexpr int64_t kMaxDecodes = 11'000;

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
