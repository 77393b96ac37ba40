// RaggedPlan: attention that reads the K and V of a step's own tokens where a gemm left them
// (ragged_kv.h). From the cache it reads only the tokens that were there before, by a plan that
// merges. Engine thread.
//
// It follows FlashInfer's ragged and paged wrappers, as vLLM and SGLang combine them. Only tests
// and `quire-bench kernels --only ragged` use it; no server does.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/device.h"

namespace quire::bench {

// The inputs of a plan beside the batch; device memory at fixed addresses.
struct RaggedTokens {
  Tensor k, v;                  // as RaggedKv takes them
  const int32_t* query_lens;    // [num_seqs]
  const int32_t* prefix_lens;   // [num_seqs] tokens that were cached before; null: none is anywhere
  const BlockId* block_tables;  // of FillRaggedBlockTables, by the batch's seq_rows
  int64_t block_table_stride;
};

class RaggedPlan : public AttentionPlan {
 public:
  // `geometry` and `limits` are the same as for a plan that reads the cache. INVALID_ARGUMENT also
  // for a window together with prefixes: a query's window in the prefix depends on the query's
  // position.
  static absl::StatusOr<std::unique_ptr<RaggedPlan>> Create(Device& device,
                                                            AttentionBackend& attention,
                                                            const AttentionGeometry& geometry,
                                                            const AttentionLimits& limits,
                                                            const RaggedTokens& tokens);

  void PlanStep(Stream& stream, const AttentionBatch& batch) override;
  void Run(Stream& stream, const AttentionRunArgs& args) const override;

 private:
  explicit RaggedPlan(const RaggedTokens& tokens) : tokens_(tokens) {}

  const RaggedTokens tokens_;
  std::unique_ptr<AttentionPlan> own_;     // of the step's own tokens
  std::unique_ptr<AttentionPlan> prefix_;  // of what was cached before; null: nothing
  DeviceBuffer lse_;  // float [max_num_batched_tokens, num_q_heads], where the caller wants none
};

}  // namespace quire::bench
