#include "kernels/cpu/attention.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/arg_checks.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/merge_states.h"

namespace quire::cpu {

namespace {

// Below this many multiply-adds a step is done before another thread has woken up.
constexpr int64_t kMinCostToWakeThreads = 600'000;

bool Contains(const std::vector<DType>& dtypes, DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

absl::Status CheckGeometry(const AttentionGeometry& geometry,
                           const AttentionCapabilities& capabilities) {
  const auto error = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("native attention on the CPU: ", parts...));
  };
  if (geometry.num_q_heads <= 0 || geometry.num_kv_heads <= 0 ||
      geometry.num_q_heads % geometry.num_kv_heads != 0) {
    return error("num_q_heads ", geometry.num_q_heads, " is not a multiple of num_kv_heads ",
                 geometry.num_kv_heads);
  }
  if (geometry.num_q_heads / geometry.num_kv_heads > kMaxTileRows) {
    return error("num_q_heads / num_kv_heads is ", geometry.num_q_heads / geometry.num_kv_heads,
                 ", at most ", kMaxTileRows, " is supported");
  }
  if (geometry.head_dim <= 0 || geometry.head_dim > kMaxHeadDim || geometry.head_dim % 8 != 0) {
    return error("head_dim ", geometry.head_dim, " is not a multiple of 8 up to ", kMaxHeadDim);
  }
  const std::vector<int>& block_sizes = capabilities.block_sizes;
  if (std::find(block_sizes.begin(), block_sizes.end(), geometry.block_size) == block_sizes.end()) {
    return error("block_size ", geometry.block_size, " is not 16, 32 or 64");
  }
  if (!Contains(capabilities.query_dtypes, geometry.query_dtype)) {
    return error("query_dtype ", std::string(DTypeName(geometry.query_dtype)),
                 " is not float32 or bfloat16");
  }
  if (!Contains(capabilities.kv_dtypes, geometry.kv_dtype)) {
    return error("kv_dtype ", std::string(DTypeName(geometry.kv_dtype)),
                 " is not float32 or bfloat16");
  }
  if (geometry.sliding_window < 0) {
    return error("sliding_window ", geometry.sliding_window, " is negative");
  }
  if (!(geometry.soft_cap >= 0)) return error("soft_cap ", geometry.soft_cap, " is negative");
  return absl::OkStatus();
}

void CheckRunArgs(const AttentionGeometry& geometry, const AttentionRunArgs& args) {
  const KvCacheView& kv = args.kv_cache;
  CHECK(args.q.dtype() == geometry.query_dtype && args.out.dtype() == geometry.query_dtype);
  CHECK(kv.dtype == geometry.kv_dtype);
  CHECK_EQ(args.q.dim(1), geometry.num_q_heads);
  CHECK_EQ(args.q.dim(2), geometry.head_dim);
  CHECK_EQ(kv.head_dim, geometry.head_dim);
  CHECK_EQ(kv.num_kv_heads, geometry.num_kv_heads);
  CHECK_EQ(kv.block_size, geometry.block_size);
}

void RunPlan(const NativePlan& plan, const AttentionRunArgs& args, ThreadPool& pool) {
  const int64_t num_kv_heads = plan.geometry().num_kv_heads;
  const int64_t num_units = static_cast<int64_t>(plan.pieces().size()) * num_kv_heads;
  const bool wake_threads = plan.total_cost() >= kMinCostToWakeThreads;
  pool.ParallelFor(num_units, wake_threads ? 1 : std::max<int64_t>(num_units, 1),
                   [&](int64_t begin, int64_t end, int thread) {
                     for (int64_t unit = begin; unit < end; ++unit) {
                       const TileWork& piece = plan.pieces()[unit / num_kv_heads];
                       AttendTile(plan.TileOf(piece, unit % num_kv_heads, args),
                                  plan.scratch(thread));
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

}  // namespace

NativeAttention::NativeAttention(ThreadPool& pool) : pool_(pool) {
  capabilities_.path = AttentionPath::kNative;
  capabilities_.query_dtypes = {DType::kF32, DType::kBF16};
  capabilities_.kv_dtypes = {DType::kF32, DType::kBF16};
  capabilities_.block_sizes = {16, 32, 64};
  capabilities_.soft_cap = true;
  capabilities_.sliding_window = true;
  capabilities_.graph_support = GraphSupport::kAlways;
}

absl::StatusOr<std::unique_ptr<AttentionPlan>> NativeAttention::CreatePlan(
    const AttentionGeometry& geometry, const AttentionLimits& limits) {
  const absl::Status status = CheckGeometry(geometry, capabilities_);
  if (!status.ok()) return status;
  return std::make_unique<NativePlan>(geometry, limits, pool_.num_threads());
}

void NativeAttention::Plan(Stream& stream, AttentionPlan& plan, const AttentionBatch& batch) {
  auto* native_plan = static_cast<NativePlan*>(&plan);
  CpuStream::From(stream).Enqueue([native_plan, batch] { native_plan->Build(batch); });
}

void NativeAttention::Run(Stream& stream, const AttentionPlan& plan, const AttentionRunArgs& args) {
  const auto* native_plan = static_cast<const NativePlan*>(&plan);
  CheckRunArgs(native_plan->geometry(), args);
  CpuStream::From(stream).Enqueue(
      [native_plan, args, pool = &pool_] { RunPlan(*native_plan, args, *pool); });
}

void NativeAttention::MergeState(Stream& stream, const MergeStateArgs& args) {
  CheckMerge(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::MergeState(args, *pool); });
}

void NativeAttention::MergeStates(Stream& stream, const MergeStatesArgs& args) {
  CheckMerge(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::MergeStates(args, *pool); });
}

}  // namespace quire::cpu
