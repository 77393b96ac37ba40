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

class TrtllmPlan : public AttentionPlan {
 public:
  TrtllmPlan(std::unique_ptr<trtllm::DecodeMemory> decodes, std::unique_ptr<PlanMemory> context)
      : decodes_(std::move(decodes)), context_(std::move(context)) {}

  void PlanStep(Stream& stream, const AttentionBatch& batch) override {
    decodes_->SetBatch(DecodesOf(batch));
    context_->SetBatch(PrefillsOf(batch));
    CudaStream::From(stream).Run("attention plan", [&](cudaStream_t s) {
      if (decodes_->batch().num_seqs > 0) trtllm::LaunchDecodePlan(decodes_->plan(), s);
      if (context_->batch().num_seqs > 0) LaunchPlan(context_->params(), s);
    });
  }

  // A launch that fails is noted by the stream.
  void Run(Stream& stream, const AttentionRunArgs& args) const override {
    CheckArgs(decodes_->geometry(), args);
    CheckAlignment(args);
    const trtllm::DecodeKernel& kernel = decodes_->kernel();
    CudaStream::From(stream).Run("attention", [&](cudaStream_t s) {
      if (decodes_->batch().num_seqs > 0) {
        LaunchKernel(kernel.function, dim3(decodes_->num_ctas()), dim3(kernel.num_threads),
                     decodes_->layout().shared_bytes, s, decodes_->MakeParams(args));
      }
      if (context_->batch().num_seqs > 0) RunTiled(*context_, args, s);
    });
  }

 private:
  const std::unique_ptr<trtllm::DecodeMemory> decodes_;
  const std::unique_ptr<PlanMemory> context_;
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
  ASSIGN_OR_RETURN(auto decodes, trtllm::DecodeMemory::Create(device_, geometries, limits));
  ASSIGN_OR_RETURN(auto contexts,
                   PlanMemory::Create(device_, geometries, limits, {.is_context = true}));
  std::vector<std::unique_ptr<AttentionPlan>> plans;
  plans.reserve(decodes.size());
  for (size_t i = 0; i < decodes.size(); ++i) {
    plans.push_back(std::make_unique<TrtllmPlan>(std::move(decodes[i]), std::move(contexts[i])));
  }
  return plans;
}

}  // namespace quire::cuda
