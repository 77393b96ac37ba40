#include "kernels/cuda/attention/native_attention.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_checks.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/attention/generic_attention.h"
#include "kernels/cuda/attention/hopper/hopper_attention.h"
#include "kernels/cuda/attention/hopper/kv_tensor_map.h"
#include "kernels/cuda/attention/plan_memory.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

bool IsAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// Tiles are copied 16 bytes at a time.
void CheckAlignment(const AttentionRunArgs& args) {
  const KvCacheView& kv = args.kv_cache;
  const int64_t piece = 16 / DTypeBytes(kv.dtype);  // elements
  CHECK(IsAligned(args.q.data()) && IsAligned(args.out.data()) && IsAligned(kv.k) &&
        IsAligned(kv.v));
  CHECK_EQ(args.q.row_stride() % 8, 0);
  CHECK_EQ(args.out.row_stride() % 8, 0);
  CHECK_EQ(kv.block_stride % piece, 0);
  CHECK_EQ(kv.token_stride % piece, 0);
  CHECK_EQ(kv.head_stride % piece, 0);
}

TiledParams MakeTiledParams(const PlanMemory& plan, const AttentionRunArgs& args) {
  const AttentionGeometry& geometry = plan.geometry();
  const KvCacheView& kv = args.kv_cache;
  return {.q = args.q.data(),
          .out = args.out.data(),
          .lse = args.lse,
          .q_row_stride = args.q.row_stride(),
          .out_row_stride = args.out.row_stride(),
          .k = kv.k,
          .v = kv.v,
          .block_stride = kv.block_stride,
          .token_stride = kv.token_stride,
          .head_stride = kv.head_stride,
          .block_shift = std::countr_zero(static_cast<uint32_t>(geometry.block_size)),
          .num_q_heads = geometry.num_q_heads,
          .num_kv_heads = geometry.num_kv_heads,
          .head_dim = geometry.head_dim,
          .variant = plan.params().variant,
          .sinks = args.sinks,
          .query_dtype = geometry.query_dtype,
          .kv_dtype = geometry.kv_dtype,
          .k_scales = kv.k_scales,
          .v_scales = kv.v_scales,
          .cu_seqlens_q = plan.params().cu_seqlens_q,
          .seq_lens = plan.params().seq_lens,
          .pages = plan.params().pages,
          .work = {}};
}

// A launch that fails is noted by the stream.
template <typename Params>
void Launch(const PersistentKernel& persistent, const Params& params, cudaStream_t stream) {
  const TiledKernel& kernel = persistent.kernel;
  LaunchKernel(reinterpret_cast<void (*)(Params)>(kernel.function), dim3(persistent.num_ctas),
               dim3(kernel.num_threads), kernel.shared_bytes, stream, params);
}

void RunTiled(const PlanMemory& plan, const AttentionRunArgs& args, cudaStream_t stream) {
  CheckAlignment(args);
  TiledParams params = MakeTiledParams(plan, args);
  const int32_t num_decode_tiled = plan.params().num_decode_tiled;
  const bool has_work[kNumWorkLists] = {num_decode_tiled > 0,
                                        num_decode_tiled < plan.batch().num_seqs};
  for (int list = 0; list < kNumWorkLists; ++list) {
    if (!has_work[list]) continue;
    params.work = plan.params().lists[list];
    const PersistentKernel& persistent = plan.kernel(list);
    if (persistent.kernel.map_tokens > 0) {
      const KvCacheView& kv = args.kv_cache;
      const TiledKernel& kernel = persistent.kernel;
      const bool is_float8 = IsFloat8(kv.dtype);
      const int32_t columns = is_float8 ? kernel.head_dim : 64;
      Launch(
          persistent,
          HopperParams{.tiled = params,
                       .k_map = MakeKvTensorMap(kv, kv.k, kernel.map_tokens, columns, !is_float8),
                       .v_map = MakeKvTensorMap(kv, kv.v, kernel.map_tokens, columns, !is_float8)},
          stream);
    } else {
      Launch(persistent, params, stream);
    }
  }
}

void RunGeneric(const PlanMemory& plan, const AttentionRunArgs& args, cudaStream_t stream) {
  LaunchGenericAttention({.q = args.q,
                          .out = args.out,
                          .lse = args.lse,
                          .kv_cache = args.kv_cache,
                          .variant = plan.params().variant,
                          .sinks = args.sinks,
                          .num_seqs = plan.batch().num_seqs,
                          .cu_seqlens_q = plan.params().cu_seqlens_q,
                          .seq_lens = plan.params().seq_lens,
                          .pages = plan.params().pages},
                         stream);
}

class NativePlan : public AttentionPlan {
 public:
  explicit NativePlan(std::unique_ptr<PlanMemory> memory) : memory_(std::move(memory)) {}

  void PlanStep(Stream& stream, const AttentionBatch& batch) override {
    memory_->SetBatch(batch);
    if (batch.num_seqs == 0) return;
    CudaStream::From(stream).Run("attention plan",
                                 [&](cudaStream_t s) { LaunchPlan(memory_->params(), s); });
  }

  void Run(Stream& stream, const AttentionRunArgs& args) const override {
    CheckArgs(memory_->geometry(), args);
    if (memory_->batch().num_seqs == 0) return;
    CudaStream::From(stream).Run("attention", [&](cudaStream_t s) {
      memory_->is_tiled() ? RunTiled(*memory_, args, s) : RunGeneric(*memory_, args, s);
    });
  }

 private:
  const std::unique_ptr<PlanMemory> memory_;
};

}  // namespace

NativeAttention::NativeAttention(Device& device, PrefillKernels prefill)
    : device_(device), prefill_(prefill) {
  capabilities_.path = AttentionPath::kNative;
  capabilities_.query_dtypes = {DType::kF32, DType::kBF16, DType::kF16};
  capabilities_.kv_dtypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3,
                             DType::kF8E5M2};
  capabilities_.block_sizes = {16, 32, 64};
  capabilities_.min_sm = 80;
  capabilities_.soft_cap = true;
  capabilities_.sliding_window = true;
  capabilities_.sinks = true;
  capabilities_.graph_support = GraphSupport::kAlways;
}

absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> NativeAttention::CreatePlans(
    absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) {
  for (const AttentionGeometry& geometry : geometries) {
    if (const std::string why = WhyUnsupported(capabilities_, geometry); !why.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("native attention on CUDA ", why));
    }
  }
  ASSIGN_OR_RETURN(auto memories, PlanMemory::Create(device_, geometries, limits, prefill_));
  std::vector<std::unique_ptr<AttentionPlan>> plans;
  plans.reserve(memories.size());
  for (auto& memory : memories) plans.push_back(std::make_unique<NativePlan>(std::move(memory)));
  return plans;
}

}  // namespace quire::cuda
