// WorkPlan: the work list of one step for the CPU's native attention, and the memory it computes
// in. Everything is allocated by the constructor; Build refills the list from the step's metadata.
// Built and read on the stream's thread.
//
// A unit of work is one query tile over a range of key splits, for one KV head. A tile whose keys
// cost more than a fair share is cut between splits, as long as there is room for its partial
// states; how it is cut never changes a result (attention.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/attention/attention_kernel.h"
#include "kernels/cpu/runtime/isa.h"

namespace quire::cpu {

// One query tile of one sequence, all KV heads.
struct TileWork {
  int32_t seq;
  int32_t first_query;  // within this step's tokens of the sequence
  int32_t num_queries;
  int64_t first_split;
  int64_t end_split;
  int64_t partial_row;  // first row of state in the plan's partials; -1: not cut
};

// Plans whose runs follow each other share this.
struct PlanWorkspace {
  PlanWorkspace(int num_threads, int64_t max_head_dim);

  const int64_t max_partial_rows;
  AttentionStateBuffer partials;
  std::vector<std::unique_ptr<AttentionScratch>> scratch;  // [num_threads]
};

class WorkPlan {
 public:
  // `workspace` is for heads at least as large as this geometry's.
  WorkPlan(const AttentionGeometry& geometry, const AttentionLimits& limits,
           std::shared_ptr<PlanWorkspace> workspace, Isa isa);

  void Build(const AttentionBatch& batch);

  // The tile to compute for one (work, KV head); `args` and this plan must outlive it.
  AttentionTile TileOf(const TileWork& work, int64_t kv_head, const AttentionRunArgs& args) const;

  const AttentionGeometry& geometry() const { return geometry_; }
  bool merges() const { return merges_; }
  const AttentionBatch& batch() const { return batch_; }
  // Most expensive first.
  const std::vector<TileWork>& pieces() const { return pieces_; }
  // The tiles that were cut, whole: their partials are to be merged when all pieces are done.
  const std::vector<TileWork>& cut_tiles() const { return cut_tiles_; }
  // Multiply-adds of all units, times two: what decides whether other threads are woken.
  int64_t total_cost() const { return total_cost_; }
  AttentionScratch& scratch(int thread_index) const { return *workspace_->scratch[thread_index]; }

 private:
  int num_threads() const { return static_cast<int>(workspace_->scratch.size()); }
  void AddTiles(int32_t seq);
  void CutTile(const TileWork& tile, int64_t fair_cost);
  int64_t Cost(const TileWork& work) const;
  int64_t QueryPosition(const TileWork& work) const;

  const AttentionGeometry geometry_;
  const int64_t group_size_;
  const int64_t tile_queries_;
  const bool with_amx_;
  const bool merges_;
  AttentionBatch batch_ = {};
  std::vector<TileWork> tiles_;
  std::vector<TileWork> pieces_;
  std::vector<TileWork> cut_tiles_;
  int64_t num_partial_rows_ = 0;
  int64_t total_cost_ = 0;
  const std::shared_ptr<PlanWorkspace> workspace_;
};

}  // namespace quire::cpu
