#include "tools/bench/kernels/ragged_plan.h"

#include <utility>

#include "absl/status/status.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "tools/bench/kernels/ragged_kv.h"

namespace quire::bench {

absl::StatusOr<std::unique_ptr<RaggedPlan>> RaggedPlan::Create(Device& device,
                                                               AttentionBackend& attention,
                                                               const AttentionGeometry& geometry,
                                                               const AttentionLimits& limits,
                                                               const RaggedTokens& tokens) {
  const bool has_prefixes = tokens.prefix_lens != nullptr;
  if (has_prefixes && geometry.sliding_window > 0) {
    return absl::InvalidArgumentError(
        "sliding_window: attention to prefixes and new tokens apart has none; use paged attention");
  }
  AttentionGeometry own = geometry;
  own.kv_dtype = tokens.k.dtype();
  own.block_size = kRaggedBlockSize;
  std::unique_ptr<RaggedPlan> plan(new RaggedPlan(tokens));
  ASSIGN_OR_RETURN(plan->own_, attention.CreatePlan(own, limits));
  if (!has_prefixes) return plan;
  AttentionGeometry prefix = geometry;
  prefix.sinks = false;  // counts with the own tokens, which every query has
  AttentionLimits merging = limits;
  merging.only_phase = AttentionPhase::kPrefill;
  merging.merges = true;
  ASSIGN_OR_RETURN(plan->prefix_, attention.CreatePlan(prefix, merging));
  const int64_t num_rows = limits.max_num_batched_tokens * geometry.num_q_heads;
  ASSIGN_OR_RETURN(plan->lse_, device.Allocate(num_rows * static_cast<int64_t>(sizeof(float))));
  return plan;
}

void RaggedPlan::PlanStep(Stream& stream, const AttentionBatch& batch) {
  CHECK(batch.causal && batch.decode_query_len == 1);
  AttentionBatch own = batch;
  own.seq_lens = tokens_.query_lens;
  own.block_tables = tokens_.block_tables;
  own.block_table_stride = tokens_.block_table_stride;
  own.first_blocks = nullptr;
  own.prefixes = {};
  own_->PlanStep(stream, own);
  if (prefix_ == nullptr) return;
  AttentionBatch prefix = batch;
  prefix.num_decodes = 0;
  prefix.seq_lens = tokens_.prefix_lens;
  prefix.causal = false;
  prefix.prefixes = {};
  prefix_->PlanStep(stream, prefix);
}

void RaggedPlan::Run(Stream& stream, const AttentionRunArgs& args) const {
  AttentionRunArgs own = args;
  own.kv_cache = RaggedKv(tokens_.k, tokens_.v, args.q.dim(0));
  if (prefix_ == nullptr) {
    own_->Run(stream, own);
    return;
  }
  if (own.lse == nullptr) own.lse = lse_.as<float>();
  own_->Run(stream, own);
  AttentionRunArgs prefix = args;
  prefix.lse = own.lse;
  prefix.sinks = nullptr;
  prefix_->Run(stream, prefix);
}

}  // namespace quire::bench
