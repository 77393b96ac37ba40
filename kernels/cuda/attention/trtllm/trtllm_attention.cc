#include "kernels/cuda/attention/trtllm/trtllm_attention.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_checks.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/attention/trtllm/decode_memory.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

bool IsAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// As TMA wants the cache, and a warp its queries.
void CheckAlignment(const AttentionRunArgs& args) {
  const KvCacheView& kv = args.kv_cache;
  const int64_t bytes = DTypeBytes(kv.dtype);
  CHECK(IsAligned(args.q.data()) && IsAligned(args.out.data()) && IsAligned(kv.k) &&
        IsAligned(kv.v));
  CHECK_EQ(args.q.row_stride() % 8, 0);
  CHECK_EQ(args.out.row_stride() % 8, 0);
  CHECK_EQ(kv.block_stride * bytes % 16, 0);
  CHECK_EQ(kv.token_stride * bytes % 16, 0);
  CHECK_EQ(kv.head_stride * bytes % 16, 0);
}

class TrtllmPlan : public AttentionPlan {
 public:
  explicit TrtllmPlan(std::unique_ptr<trtllm::DecodeMemory> memory) : memory_(std::move(memory)) {}

  void PlanStep(Stream& stream, const AttentionBatch& batch) override {
    memory_->SetBatch(batch);
    if (batch.num_seqs == 0) return;
    CudaStream::From(stream).Run(
        "attention plan", [&](cudaStream_t s) { trtllm::LaunchDecodePlan(memory_->plan(), s); });
  }

  // A launch that fails is noted by the stream.
  void Run(Stream& stream, const AttentionRunArgs& args) const override {
    CheckArgs(memory_->geometry(), args);
    if (memory_->batch().num_seqs == 0) return;
    CheckAlignment(args);
    const trtllm::DecodeKernel& kernel = memory_->kernel();
    CudaStream::From(stream).Run("attention", [&](cudaStream_t s) {
      LaunchKernel(kernel.function, dim3(memory_->num_ctas()), dim3(kernel.num_threads),
                   memory_->layout().shared_bytes, s, memory_->MakeParams(args));
    });
  }

 private:
  const std::unique_ptr<trtllm::DecodeMemory> memory_;
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
  capabilities_.phases = {AttentionPhase::kDecode};
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
  ASSIGN_OR_RETURN(auto memories, trtllm::DecodeMemory::Create(device_, geometries, limits));
  std::vector<std::unique_ptr<AttentionPlan>> plans;
  plans.reserve(memories.size());
  for (auto& memory : memories) plans.push_back(std::make_unique<TrtllmPlan>(std::move(memory)));
  return plans;
}

}  // namespace quire::cuda
