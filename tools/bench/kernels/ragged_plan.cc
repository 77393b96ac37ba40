#include "tools/bench/kernels/ragged_plan.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/ragged_kv.h"

namespace quire::bench {

absl::StatusOr<std::unique_ptr<RaggedPlan>> RaggedPlan::Create(Backend& backend,
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
  std::vector<AttentionGeometry> geometries = {own};
  if (has_prefixes) {
    geometries.push_back(geometry);
    geometries.back().sinks = false;  // counts with the own tokens, which every query has
  }
  ASSIGN_OR_RETURN(auto plans, attention.CreatePlans(geometries, limits));
  std::unique_ptr<RaggedPlan> plan(new RaggedPlan(backend, tokens));
  plan->own_ = std::move(plans[0]);
  if (has_prefixes) {
    plan->prefix_ = std::move(plans[1]);
    RETURN_IF_ERROR(plan->Allocate(geometry, limits.max_num_batched_tokens));
  }
  return plan;
}

absl::Status RaggedPlan::Allocate(const AttentionGeometry& geometry, int64_t max_num_tokens) {
  const int64_t rows = max_num_tokens * geometry.num_q_heads;
  const auto lse_bytes = rows * static_cast<int64_t>(sizeof(float));
  Device& device = backend_.device();
  ASSIGN_OR_RETURN(prefix_out_,
                   device.Allocate(rows * geometry.v_head_dim * DTypeBytes(geometry.query_dtype)));
  ASSIGN_OR_RETURN(prefix_lse_, device.Allocate(lse_bytes));
  ASSIGN_OR_RETURN(own_lse_, device.Allocate(lse_bytes));
  return absl::OkStatus();
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
  if (own.lse == nullptr) own.lse = own_lse_.as<float>();
  AttentionRunArgs prefix = args;
  prefix.out = Tensor(prefix_out_.data(), args.out.dtype(),
                      {args.out.dim(0), args.out.dim(1), args.out.dim(2)});
  prefix.lse = prefix_lse_.as<float>();
  prefix.sinks = nullptr;
  prefix_->Run(stream, prefix);
  own_->Run(stream, own);
  backend_.ops().MergeState(stream, {.out_a = own.out,
                                     .lse_a = own.lse,
                                     .out_b = prefix.out,
                                     .lse_b = prefix.lse,
                                     .out = own.out,
                                     .lse = own.lse});
}

}  // namespace quire::bench
