#include "engine/runner/cascade_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

// The largest head dimension that a GPU's plans that merge serve.
constexpr int32_t kMaxHeadDim = 256;

// The first rows of a step's tensor.
Tensor FirstRows(const Tensor& tensor, int64_t num_rows) {
  return Tensor(tensor.data(), tensor.dtype(), {num_rows, tensor.dim(1), tensor.dim(2)})
      .WithRowStride(tensor.row_stride());
}

class CascadePlan : public AttentionPlan {
 public:
  CascadePlan(std::unique_ptr<AttentionPlan> prefix, std::unique_ptr<AttentionPlan> rest,
              DeviceBuffer lse)
      : prefix_(std::move(prefix)), rest_(std::move(rest)), lse_(std::move(lse)) {}

  void PlanStep(Stream& stream, const AttentionBatch& batch) override {
    CHECK_EQ(batch.num_seqs, batch.num_decodes) << "a plan of decodes";
    num_decodes_ = batch.num_decodes;
    const SharedPrefixes& prefixes = batch.prefixes;
    has_prefixes_ = prefixes.num_groups > 0;
    if (!has_prefixes_) {
      rest_->PlanStep(stream, batch);
      return;
    }
    CHECK_EQ(batch.decode_query_len, 1);
    prefix_->PlanStep(stream, {.num_seqs = prefixes.num_groups,
                               .num_tokens = num_decodes_,
                               .num_decodes = 0,
                               .cu_seqlens_q = prefixes.cu_seqlens_q,
                               .seq_lens = prefixes.prefix_lens,
                               .seq_rows = prefixes.prefix_rows,
                               .block_tables = batch.block_tables,
                               .block_table_stride = batch.block_table_stride,
                               .causal = false});
    AttentionBatch rest = batch;
    rest.seq_lens = prefixes.seq_lens;
    rest.first_blocks = prefixes.first_blocks;
    rest.prefixes = {};
    rest_->PlanStep(stream, rest);
  }

  void Run(Stream& stream, const AttentionRunArgs& args) const override {
    if (!has_prefixes_) {
      rest_->Run(stream, args);
      return;
    }
    AttentionRunArgs rest = args;
    if (rest.lse == nullptr) rest.lse = lse_.as<float>();
    rest_->Run(stream, rest);
    AttentionRunArgs prefix = rest;
    prefix.q = FirstRows(args.q, num_decodes_);
    prefix.out = FirstRows(args.out, num_decodes_);
    prefix_->Run(stream, prefix);
  }

 private:
  const std::unique_ptr<AttentionPlan> prefix_;  // merges into what the rest has left
  const std::unique_ptr<AttentionPlan> rest_;
  const DeviceBuffer lse_;   // float [max_num_decodes, num_q_heads], where the caller wants none
  int32_t num_decodes_ = 0;  // of this step
  bool has_prefixes_ = false;
};

}  // namespace

std::string WhyNoCascade(const AttentionGeometry& geometry) {
  if (geometry.sliding_window != 0) return "its layers have a sliding window";
  if (geometry.sinks) return "its attention has sinks";
  if (geometry.k_head_dim > kMaxHeadDim) {
    return absl::StrCat("its heads have more than ", kMaxHeadDim, " elements");
  }
  return "";
}

absl::StatusOr<std::unique_ptr<AttentionPlan>> MakeCascadePlan(
    Device& device, AttentionBackend& prefill, std::unique_ptr<AttentionPlan> decode,
    const AttentionGeometry& geometry, const AttentionLimits& limits, int64_t max_num_groups) {
  CHECK(WhyNoCascade(geometry).empty());
  const AttentionLimits prefixes = {.max_num_seqs = max_num_groups,
                                    .max_num_batched_tokens = limits.max_num_seqs,
                                    .max_blocks_per_seq = limits.max_blocks_per_seq,
                                    .only_phase = AttentionPhase::kPrefill,
                                    .merges = true};
  ASSIGN_OR_RETURN(auto prefix, prefill.CreatePlan(geometry, prefixes));
  const int64_t num_rows = limits.max_num_seqs * geometry.num_q_heads;
  ASSIGN_OR_RETURN(DeviceBuffer lse,
                   device.Allocate(num_rows * static_cast<int64_t>(sizeof(float))));
  return std::make_unique<CascadePlan>(std::move(prefix), std::move(decode), std::move(lse));
}

}  // namespace quire
