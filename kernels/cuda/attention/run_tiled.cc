#include "kernels/cuda/attention/run_tiled.h"

#include <bit>
#include <cstdint>

#include "kernels/base/check.h"
#include "kernels/cuda/attention/hopper/hopper_attention.h"
#include "kernels/cuda/attention/hopper/kv_tensor_map.h"
#include "kernels/cuda/attention/merge_parts.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

bool IsAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

TiledParams MakeTiledParams(const PlanMemory& plan, const AttentionRunArgs& args) {
  const AttentionGeometry& geometry = plan.geometry();
  const KvCacheView& kv = args.kv_cache;
  return {.q = args.q.data(),
          .out = args.out.data(),
          .lse = args.lse,
          .q_row_stride = args.q.row_stride(),
          .out_row_stride = args.out.row_stride(),
          .k = kv.k.data,
          .v = kv.v.data,
          .block_stride = kv.k.block_stride,
          .token_stride = kv.k.token_stride,
          .head_stride = kv.k.head_stride,
          .block_shift = std::countr_zero(static_cast<uint32_t>(geometry.block_size)),
          .num_q_heads = geometry.num_q_heads,
          .num_kv_heads = geometry.num_kv_heads,
          .head_dim = geometry.k_head_dim,
          .variant = plan.params().variant,
          .sinks = args.sinks,
          .query_dtype = geometry.query_dtype,
          .kv_dtype = geometry.kv_dtype,
          .k_scales = kv.k.scales,
          .v_scales = kv.v.scales,
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

}  // namespace

void CheckAlignment(const AttentionRunArgs& args) {
  const KvCacheView& kv = args.kv_cache;
  const int64_t piece = 16 / DTypeBytes(kv.dtype);  // elements
  CHECK(IsAligned(args.q.data()) && IsAligned(args.out.data()) && IsAligned(kv.k.data) &&
        IsAligned(kv.v.data));
  CHECK_EQ(args.q.row_stride() % 8, 0);
  CHECK_EQ(args.out.row_stride() % 8, 0);
  CHECK_EQ(kv.k.block_stride % piece, 0);
  CHECK_EQ(kv.k.token_stride % piece, 0);
  CHECK_EQ(kv.k.head_stride % piece, 0);
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
      const auto map = [&](const HeadsView& heads) {
        return MakeKvTensorMap(kv, heads, kernel.map_tokens, kernel.map_columns,
                               kernel.map_swizzled);
      };
      Launch(persistent,
             HopperParams{.tiled = params,
                          .k_map = map(kv.k),
                          .v_map = map(kv.v),
                          .waits_last = plan.params().merges},
             stream);
    } else {
      Launch(persistent, params, stream);
    }
  }
  if (!plan.params().merges) return;
  LaunchMergeParts({.tiled = params,  // with the list of prompts, the only one of such a plan
                    .num_tokens = plan.batch().num_tokens,
                    .num_seqs = plan.params().num_seqs,
                    .seq_plans = plan.params().seq_plans,
                    .part_dim = plan.kernel(kNumWorkLists - 1).kernel.head_dim},
                   stream);
}

}  // namespace quire::cuda
