#include "kernels/cpu/attention/native_attention.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_checks.h"
#include "kernels/cpu/attention/attention_plan.h"
#include "kernels/cpu/runtime/cpu_stream.h"

namespace quire::cpu {

namespace {

// Below this many multiply-adds a step is done before another thread has woken up.
constexpr int64_t kMinCostToWakeThreads = 600'000;
constexpr int64_t kRangesPerThread = 16;

void Compute(const WorkPlan& plan, const AttentionRunArgs& args, ThreadPool& pool) {
  const int64_t num_kv_heads = plan.geometry().num_kv_heads;
  const int64_t num_units = static_cast<int64_t>(plan.pieces().size()) * num_kv_heads;
  const bool wake_threads = plan.total_cost() >= kMinCostToWakeThreads;
  // Some units at a time, so that a thread knows its next one; few enough for even shares.
  const int64_t num_ranges = wake_threads ? kRangesPerThread * pool.num_threads() : 1;
  const auto tile_of = [&](int64_t unit) {
    return plan.TileOf(plan.pieces()[unit / num_kv_heads], unit % num_kv_heads, args);
  };
  pool.ParallelFor(num_units, CeilDiv(std::max<int64_t>(num_units, 1), num_ranges),
                   [&](int64_t begin, int64_t end, int thread) {
                     AttentionTile tile = tile_of(begin);
                     for (int64_t unit = begin; unit < end; ++unit) {
                       const bool has_next = unit + 1 < end;
                       const AttentionTile next = has_next ? tile_of(unit + 1) : tile;
                       AttendTile(tile, has_next ? &next : nullptr, plan.scratch(thread));
                       tile = next;
                     }
                   });
  const int64_t num_merges = static_cast<int64_t>(plan.cut_tiles().size()) * num_kv_heads;
  pool.ParallelFor(num_merges, num_kv_heads, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const TileWork& tile = plan.cut_tiles()[unit / num_kv_heads];
      MergeTile(plan.TileOf(tile, unit % num_kv_heads, args), plan.scratch(thread));
    }
  });
}

class NativePlan : public AttentionPlan {
 public:
  NativePlan(const AttentionGeometry& geometry, const AttentionLimits& limits,
             std::shared_ptr<PlanWorkspace> workspace, Isa isa, ThreadPool& pool)
      : work_(geometry, limits, std::move(workspace), isa), pool_(pool) {}

  void PlanStep(Stream& stream, const AttentionBatch& batch) override {
    CpuStream::From(stream).Enqueue([this, batch] { work_.Build(batch); });
  }
  void Run(Stream& stream, const AttentionRunArgs& args) const override {
    CheckArgs(work_.geometry(), work_.merges(), args);
    CpuStream::From(stream).Enqueue([this, args] { Compute(work_, args, pool_); });
  }

 private:
  WorkPlan work_;  // built and read by the stream's tasks
  ThreadPool& pool_;
};

}  // namespace

NativeAttention::NativeAttention(ThreadPool& pool, Isa isa) : pool_(pool), isa_(isa) {
  capabilities_.path = AttentionPath::kNative;
  capabilities_.query_dtypes = {DType::kF32, DType::kBF16};
  capabilities_.kv_dtypes = {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2};
  capabilities_.max_head_dim = kMaxHeadDim;
  capabilities_.block_sizes = {16, 32, 64};
  capabilities_.max_group_size = kMaxQueryRows;
  capabilities_.soft_cap = true;
  capabilities_.sliding_window = true;
  capabilities_.sinks = true;
  capabilities_.graph_support = GraphSupport::kAlways;
}

absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> NativeAttention::CreatePlans(
    absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) {
  int64_t max_head_dim = 0;
  for (const AttentionGeometry& geometry : geometries) {
    if (const std::string why = WhyUnsupported(capabilities_, geometry); !why.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("native attention on the CPU ", why));
    }
    max_head_dim = std::max<int64_t>(max_head_dim, geometry.k_head_dim);
  }
  const auto workspace = std::make_shared<PlanWorkspace>(pool_.num_threads(), max_head_dim);
  std::vector<std::unique_ptr<AttentionPlan>> plans;
  for (const AttentionGeometry& geometry : geometries) {
    plans.push_back(std::make_unique<NativePlan>(geometry, limits, workspace, isa_, pool_));
  }
  return plans;
}

}  // namespace quire::cpu
