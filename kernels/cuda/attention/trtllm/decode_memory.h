// DecodeMemory: the device memory of one layer group's decodes, allocated once, and what the host
// must know to launch them. Used by the engine's thread; the contents change on the stream.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention/trtllm/decode_kernel.h"

namespace quire::cuda::trtllm {

// What CTAs leave each other of units that are cut; free again when a run ends.
struct PartialBuffers {
  DeviceBuffer out, state, arrivals;
};

class DecodeMemory {
 public:
  // Plans that share the memory for partial results. RESOURCE_EXHAUSTED when the device has too
  // little memory.
  static absl::StatusOr<std::vector<std::unique_ptr<DecodeMemory>>> Create(
      Device& device, absl::Span<const AttentionGeometry> geometries,
      const AttentionLimits& limits);

  // Takes over the batch's addresses and sizes.
  void SetBatch(const AttentionBatch& batch);

  const AttentionGeometry& geometry() const { return geometry_; }
  // As of the last batch.
  const AttentionBatch& batch() const { return batch_; }
  const DecodePlanParams& plan() const { return plan_; }
  const DecodeKernel& kernel() const { return *kernel_; }
  const DecodeLayout& layout() const { return layout_; }
  int32_t num_ctas() const { return plan_.num_ctas; }
  // What a run needs beside its arguments.
  DecodeParams MakeParams(const AttentionRunArgs& args) const;

 private:
  DecodeMemory(const AttentionGeometry& geometry, const AttentionLimits& limits);

  absl::Status LoadKernels();
  absl::Status Allocate(Device& device);
  // For this many query tokens of a sequence.
  const DecodeKernel& KernelFor(int32_t query_len) const;
  DecodeLayout LayoutFor(int64_t num_seqs, int32_t query_len) const;
  int32_t MaxUnitRows() const;
  template <typename T>
  absl::Status AllocateArray(Device& device, int64_t count, T*& array);

  const AttentionGeometry geometry_;
  const AttentionLimits limits_;
  const int32_t group_size_;
  DecodeKernel kernels_[2] = {};  // for up to 8 and up to 16 rows of a warp
  AttentionBatch batch_ = {};
  DecodePlanParams plan_ = {};
  const DecodeKernel* kernel_ = nullptr;
  DecodeLayout layout_ = {};
  std::vector<DeviceBuffer> buffers_;
  std::shared_ptr<const PartialBuffers> partials_;  // of all plans
};

}  // namespace quire::cuda::trtllm
