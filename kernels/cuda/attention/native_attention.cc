#include "kernels/cuda/attention/native_attention.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_checks.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/attention/generic_attention.h"
#include "kernels/cuda/attention/plan_memory.h"
#include "kernels/cuda/attention/run_tiled.h"
#include "kernels/cuda/runtime/cuda_stream.h"

namespace quire::cuda {

namespace {

void RunGeneric(const PlanMemory& plan, const AttentionRunArgs& args, cudaStream_t stream) {
  LaunchGenericAttention({.q = args.q,
                          .out = args.out,
                          .lse = args.lse,
                          .kv_cache = args.kv_cache,
                          .variant = plan.params().variant,
                          .sinks = args.sinks,
                          .merges = plan.params().merges,
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
    CheckArgs(memory_->geometry(), memory_->params().merges, args);
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
  capabilities_.max_head_dim = 512;
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
  ASSIGN_OR_RETURN(auto memories,
                   PlanMemory::Create(device_, geometries, limits, {.prefill = prefill_}));
  std::vector<std::unique_ptr<AttentionPlan>> plans;
  plans.reserve(memories.size());
  for (auto& memory : memories) plans.push_back(std::make_unique<NativePlan>(std::move(memory)));
  return plans;
}

}  // namespace quire::cuda
