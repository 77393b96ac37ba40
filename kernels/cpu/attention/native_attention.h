// NativeAttention: the native attention path on the CPU. Its plans list (query tile, KV heads) work
// balanced over the threads, and compute it with paged K and V read once per tile and group.
//
// The bits of a query's result are its own. Keys are visited in one fixed order, in tiles of
// kKeyTile and splits of kKeySplit keys at absolute positions, and each split has its own softmax
// state. The results of splits are folded into the total in ascending order, by the same arithmetic
// whether one thread computes all splits or several do. So neither the rest of the batch, nor the
// chunk that the query came in, nor the number of threads changes the bits. Called by the engine's
// thread; the work runs on the stream's thread.
#pragma once

#include <memory>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/runtime/isa.h"
#include "kernels/cpu/runtime/thread_pool.h"

namespace quire::cpu {

class NativeAttention : public AttentionBackend {
 public:
  // The pool must outlive this, its plans and every task enqueued through it.
  NativeAttention(ThreadPool& pool, Isa isa);

  const AttentionCapabilities& capabilities() const override { return capabilities_; }
  absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePlans(
      absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) override;

 private:
  ThreadPool& pool_;
  const Isa isa_;
  AttentionCapabilities capabilities_;
};

}  // namespace quire::cpu
