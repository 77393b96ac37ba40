#include "kernels/cuda/attention/classic/classic_attention.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_checks.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/cuda/attention/classic/classic_kernels.h"
#include "kernels/cuda/runtime/cuda_stream.h"

namespace quire::cuda {

namespace {

class ClassicPlan : public AttentionPlan {
 public:
  static absl::StatusOr<std::unique_ptr<ClassicPlan>> Create(Device& device,
                                                             const AttentionGeometry& geometry,
                                                             const AttentionLimits& limits) {
    std::unique_ptr<ClassicPlan> plan(new ClassicPlan(geometry));
    RETURN_IF_ERROR(plan->Allocate(device, limits));
    return plan;
  }

  void PlanStep(Stream&, const AttentionBatch& batch) override {
    CHECK_EQ(batch.num_decodes, batch.num_seqs) << "decodes only";
    CHECK_EQ(batch.decode_query_len, 1);
    CHECK(batch.first_blocks == nullptr && batch.causal);
    CHECK_LE(batch.num_seqs, max_num_seqs_);
    batch_ = batch;
    is_converted_ = false;
  }

  void Run(Stream& stream, const AttentionRunArgs& args) const override {
    CheckArgs(geometry_, /*merges=*/false, args);
    if (batch_.num_seqs == 0) return;
    CudaStream::From(stream).Run("attention", [&](cudaStream_t s) {
      if (!is_converted_) classic::LaunchConvert(ConvertParams(args), s);
      is_converted_ = true;
      classic::LaunchDecode(DecodeParams(args), s);
    });
  }

 private:
  explicit ClassicPlan(const AttentionGeometry& geometry) : geometry_(geometry) {}

  absl::Status Allocate(Device& device, const AttentionLimits& limits) {
    cache_.max_blocks = static_cast<int32_t>(limits.max_blocks_per_seq * geometry_.block_size /
                                             classic::kBlockTokens);
    max_num_seqs_ = limits.max_num_seqs;
    const int64_t num_blocks = max_num_seqs_ * cache_.max_blocks;
    const int64_t cache_bytes = num_blocks * classic::kBlockTokens * geometry_.num_kv_heads *
                                geometry_.k_head_dim * DTypeBytes(geometry_.kv_dtype);
    max_partitions_ = CeilDiv(cache_.max_blocks, classic::kPartitionTokens / classic::kBlockTokens);
    const int64_t num_partials = limits.max_num_seqs * geometry_.num_q_heads * max_partitions_;
    const auto allocate = [&](int64_t bytes) {
      return device.Allocate(std::max<int64_t>(bytes, 16));  // limits of nothing are limits, too
    };
    ASSIGN_OR_RETURN(k_, allocate(cache_bytes));
    ASSIGN_OR_RETURN(v_, allocate(cache_bytes));
    ASSIGN_OR_RETURN(tables_, allocate(num_blocks * int64_t{sizeof(int32_t)}));
    ASSIGN_OR_RETURN(out_, allocate(num_partials * geometry_.v_head_dim * int64_t{sizeof(float)}));
    ASSIGN_OR_RETURN(state_, allocate(num_partials * int64_t{sizeof(float2)}));
    cache_.k = k_.data();
    cache_.v = v_.data();
    cache_.tables = tables_.as<int32_t>();
    return absl::OkStatus();
  }

  classic::ConvertParams ConvertParams(const AttentionRunArgs& args) const {
    return {.from = args.kv_cache,
            .to = cache_,
            .num_seqs = batch_.num_seqs,
            .seq_lens = batch_.seq_lens,
            .seq_rows = batch_.seq_rows,
            .block_tables = batch_.block_tables,
            .block_table_stride = batch_.block_table_stride};
  }

  classic::DecodeParams DecodeParams(const AttentionRunArgs& args) const {
    return {.q = args.q.data(),
            .out = args.out.data(),
            .lse = args.lse,
            .q_row_stride = args.q.row_stride(),
            .out_row_stride = args.out.row_stride(),
            .cache = cache_,
            .num_seqs = batch_.num_seqs,
            .cu_seqlens_q = batch_.cu_seqlens_q,
            .seq_lens = batch_.seq_lens,
            .num_q_heads = geometry_.num_q_heads,
            .num_kv_heads = geometry_.num_kv_heads,
            .head_dim = geometry_.k_head_dim,
            .scale = geometry_.scale,
            .dtype = geometry_.kv_dtype,
            .max_partitions = max_partitions_,
            .partial_out = out_.as<float>(),
            .partial_state = state_.as<float2>()};
  }

  const AttentionGeometry geometry_;
  AttentionBatch batch_ = {};
  mutable bool is_converted_ = false;
  classic::Cache cache_ = {};
  int64_t max_num_seqs_ = 0;
  int32_t max_partitions_ = 0;
  DeviceBuffer k_, v_, tables_, out_, state_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionPlan>> CreateClassicPlan(Device& device,
                                                                 const AttentionGeometry& geometry,
                                                                 const AttentionLimits& limits) {
  CHECK(!limits.merges);
  AttentionCapabilities capabilities = {};  // of no path
  capabilities.query_dtypes = {DType::kBF16, DType::kF16};
  capabilities.kv_dtypes = {DType::kBF16, DType::kF16};
  capabilities.head_dims = {64, 128, 256};
  capabilities.block_sizes = {16, 32, 64};
  if (const std::string why = WhyUnsupported(capabilities, geometry); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("classic attention ", why));
  }
  return ClassicPlan::Create(device, geometry, limits);
}

}  // namespace quire::cuda
