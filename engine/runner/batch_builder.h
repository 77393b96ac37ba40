// BatchBuilder: turns a SchedulerOutput into BatchMetadata; nothing else does. Pure host code,
// engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/runner/batch.h"
#include "engine/runner/shared_prefix.h"
#include "scheduler/scheduler_output.h"

namespace quire {

class BatchBuilder {
 public:
  using SendUpdates = absl::FunctionRef<void(absl::Span<const BlockTableUpdate>)>;

  // A uniform step is padded to the least size that holds it, among the `uniform_sizes` (ascending,
  // may be empty) with its query length.
  BatchBuilder(const BatchLimits& limits, std::vector<UniformSize> uniform_sizes);

  const std::vector<UniformSize>& uniform_sizes() const { return uniform_sizes_; }

  // Fills `buffer` (host memory, BatchLayout of MaxShape bytes) and returns its counts, which are
  // the counts of the real sequences, whatever the padding. Padding reads and writes nothing that
  // outlives the step: length 0, slot -1, no row, no block. When a step adds more than
  // BatchLimits::max_block_updates blocks, `send_updates` gets them ahead of the step, a full array
  // at a time, which is reused when it returns. Decodes that share prefixes are reordered
  // (shared_prefix.h); logit_rows keeps the output's order.
  BatchMetadata Build(const SchedulerOutput& output, void* buffer, SendUpdates send_updates);
  // A step that has only padding, of size uniform_sizes()[index].
  BatchMetadata BuildPadding(int index, void* buffer) const;

 private:
  BatchShape ShapeOf(const SchedulerOutput& output, bool shares_prefixes) const;
  int UniformSizeFor(const SchedulerOutput& output, const BatchShape& shape) const;
  void AddSequence(const ScheduledSequence& sequence, const BatchArrays& arrays,
                   SendUpdates send_updates, BatchMetadata* batch, LogitRows* rows) const;
  void AddPrefixes(const PrefixOrder& prefixes, const BatchMetadata& batch,
                   const BatchArrays& arrays) const;
  void AddTokens(const ScheduledSequence& sequence, const BatchArrays& arrays,
                 const BatchMetadata& batch) const;
  void AddBlockUpdates(const ScheduledSequence& sequence, const BatchArrays& arrays,
                       SendUpdates send_updates, BatchMetadata* batch) const;
  void AddState(const ScheduledSequence& sequence, const BatchArrays& arrays,
                BatchMetadata* batch) const;
  void Pad(const BatchMetadata& batch, const BatchArrays& arrays) const;

  BatchLimits limits_;
  std::vector<UniformSize> uniform_sizes_;
  SharedPrefixFinder prefix_finder_;
};

// The seed of continuation `index`: the request's own for index 0, unrelated ones for the others.
uint64_t ContinuationSeed(uint64_t request_seed, int32_t index);

}  // namespace quire
