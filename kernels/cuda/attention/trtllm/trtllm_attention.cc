#include "kernels/cuda/attention/trtllm/trtllm_attention.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_batch.h"
#include "kernels/attention_checks.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/attention/plan_memory.h"
#include "kernels/cuda/attention/run_tiled.h"
#include "kernels/cuda/attention/trtllm/decode_memory.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

// Of decodes, context, or both.
class TrtllmPlan : public AttentionPlan {
 public:
  TrtllmPlan(std::unique_ptr<trtllm::DecodeMemory> decodes, std::unique_ptr<PlanMemory> context)
      : decodes_(std::move(decodes)), context_(std::move(context)) {}

  void PlanStep(Stream& stream, const AttentionBatch& batch) override {
    const AttentionBatch decodes = DecodesOf(batch), context = PrefillsOf(batch);
    has_decodes_ = decodes.num_seqs > 0;
    has_context_ = context.num_seqs > 0;
    CHECK(!has_decodes_ || decodes_ != nullptr);
    CHECK(!has_context_ || context_ != nullptr);
    if (has_decodes_) decodes_->SetBatch(decodes);
    if (has_context_) context_->SetBatch(context);
    CudaStream::From(stream).Run("attention plan", [&](cudaStream_t s) {
      if (has_decodes_) trtllm::LaunchDecodePlan(decodes_->plan(), s);
      if (has_context_) LaunchPlan(context_->params(), s);
    });
  }

  // A launch that fails is noted by the stream.
  void Run(Stream& stream, const AttentionRunArgs& args) const override {
    const bool merges = context_ != nullptr && context_->params().merges;
    CheckArgs(decodes_ != nullptr ? decodes_->geometry() : context_->geometry(), merges, args);
    CheckAlignment(args);
    CudaStream::From(stream).Run("attention", [&](cudaStream_t s) {
      if (has_decodes_) RunDecodes(args, s);
      if (has_context_) RunTiled(*context_, args, s);
    });
  }

 private:
  void RunDecodes(const AttentionRunArgs& args, cudaStream_t stream) const {
    const trtllm::DecodeKernel& kernel = decodes_->kernel();
    LaunchKernel(kernel.function, dim3(decodes_->num_ctas()), dim3(kernel.num_threads),
                 decodes_->layout().shared_bytes, stream, decodes_->MakeParams(args));
  }

  const std::unique_ptr<trtllm::DecodeMemory> decodes_;  // null in plans of prompts only
  const std::unique_ptr<PlanMemory> context_;            // null in plans of decodes only
  bool has_decodes_ = false;                             // this step
  bool has_context_ = false;
};

}  // namespace

TrtllmAttention::TrtllmAttention(Device& device) : device_(device) {
  capabilities_.path = AttentionPath::kTrtllm;
  capabilities_.query_dtypes = {DType::kBF16, DType::kF16};
  capabilities_.kv_dtypes = {DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2};
  capabilities_.head_dims = {64, 128, 256};
  capabilities_.block_sizes = {16, 32, 64};
  capabilities_.min_sm = 90;
  capabilities_.max_sm = 90;
  capabilities_.soft_cap = true;
  capabilities_.sliding_window = true;
  capabilities_.sinks = true;
  capabilities_.max_decode_query_len = kMaxQueryLen;
  capabilities_.max_num_seqs = kMaxDecodes;
  capabilities_.graph_support = GraphSupport::kUniformBatch;
}

absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> TrtllmAttention::CreatePlans(
    absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) {
  const int sm_version = device_.info().sm_version;
  if (sm_version < capabilities_.min_sm || sm_version > capabilities_.max_sm) {
    return absl::InvalidArgumentError(
        absl::StrCat("trtllm attention on CUDA needs SM version 90, the device has ", sm_version));
  }
  for (const AttentionGeometry& geometry : geometries) {
    if (const std::string why = WhyUnsupported(capabilities_, geometry); !why.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("trtllm attention on CUDA ", why));
    }
  }
  if (const std::string why = WhyUnsupported(capabilities_, limits.max_num_seqs); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("trtllm attention on CUDA ", why));
  }
  if (limits.max_num_seqs * limits.max_blocks_per_seq > INT32_MAX) {
    return absl::OutOfRangeError(absl::StrCat(
        "max_num_seqs: trtllm attention counts at most 2^31 entries of block tables, and ",
        limits.max_num_seqs, " sequences have ", limits.max_blocks_per_seq,
        " each; lower either, or choose the native path"));
  }
  for (const AttentionGeometry& geometry : geometries) CheckMerges(geometry, limits);
  std::vector<std::unique_ptr<trtllm::DecodeMemory>> decodes(geometries.size());
  std::vector<std::unique_ptr<PlanMemory>> contexts(geometries.size());
  if (limits.only_phase != AttentionPhase::kPrefill) {
    ASSIGN_OR_RETURN(decodes, trtllm::DecodeMemory::Create(device_, geometries, limits));
  }
  if (limits.only_phase != AttentionPhase::kDecode) {
    AttentionLimits context = limits;
    context.only_phase = AttentionPhase::kPrefill;
    ASSIGN_OR_RETURN(contexts, PlanMemory::Create(device_, geometries, context,
                                                  {.padded_pages = true, .float8_gemms = true}));
  }
  std::vector<std::unique_ptr<AttentionPlan>> plans;
  plans.reserve(geometries.size());
  for (size_t i = 0; i < geometries.size(); ++i) {
    plans.push_back(std::make_unique<TrtllmPlan>(std::move(decodes[i]), std::move(contexts[i])));
  }
  return plans;
}

}  // namespace quire::cuda
