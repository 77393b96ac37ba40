// PlanMemory: the device memory of one layer group's plan, allocated once, and what the host must
// know to launch it. Planned and run by the engine's thread; the contents change on the stream.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention/native_attention.h"
#include "kernels/cuda/attention/plan_kernels.h"
#include "kernels/cuda/attention/tiles/tiled_attention.h"

namespace quire::cuda {

// A compiled kernel and how many CTAs of it the device holds at once.
struct PersistentKernel {
  TiledKernel kernel = {};
  int32_t num_ctas = 0;
};

// The results that the splits of one list leave for the merge. The buffers are free again when a
// run ends.
struct PartialBuffers {
  DeviceBuffer out, state, arrivals;
};

// Whose plan it is.
struct PlanOptions {
  PrefillKernels prefill = PrefillKernels::kBest;
  // The trtllm path's form of pages, of plans for prompts only.
  bool padded_pages = false;
  // Its prompts on a cache of e4m3: queries and probs rounded to e4m3, too, where a kernel has it.
  bool float8_gemms = false;
};

class PlanMemory {
 public:
  // Plans that share the memory for partial results. RESOURCE_EXHAUSTED when the device has too
  // little memory.
  static absl::StatusOr<std::vector<std::unique_ptr<PlanMemory>>> Create(
      Device& device, absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits,
      const PlanOptions& options = {});

  // Takes over the batch's addresses and sizes.
  void SetBatch(const AttentionBatch& batch);

  const AttentionGeometry& geometry() const { return geometry_; }
  const AttentionBatch& batch() const { return batch_; }
  // Lists as of the last batch.
  const PlanParams& params() const { return params_; }
  // False where only the generic kernel can compute this geometry.
  bool is_tiled() const { return kernels_[kNumWorkLists - 1].num_ctas > 0; }
  const PersistentKernel& kernel(int list) const { return kernels_[list]; }

 private:
  PlanMemory(const AttentionGeometry& geometry, const AttentionLimits& limits,
             const PlanOptions& options);

  // Prompts make no tiles of decodes; decodes of many heads make tiles of prompts.
  bool has_list(int index) const {
    return index > 0 || limits_.only_phase != AttentionPhase::kPrefill;
  }
  void SizeList(int index);
  int64_t MaxTiles(int index) const;
  absl::Status Allocate(Device& device);
  // The rows of partial results of one list, for all KV heads.
  int64_t NumPartialRows(int index) const;
  void UsePartials(int index, const PartialBuffers& buffers);
  // Zero-filled; owned by the plan.
  template <typename T>
  absl::Status AllocateArray(Device& device, int64_t count, T*& array);
  // None where a tile does not fit the device's shared memory: then the generic kernel computes.
  absl::Status LoadKernels(const DeviceInfo& device);

  const AttentionGeometry geometry_;
  const AttentionLimits limits_;
  const PlanOptions options_;
  AttentionBatch batch_ = {};
  PlanParams params_ = {};
  PersistentKernel kernels_[kNumWorkLists];
  std::vector<DeviceBuffer> buffers_;
  std::shared_ptr<const std::vector<PartialBuffers>> partials_;  // [kNumWorkLists], of all plans
};

}  // namespace quire::cuda
