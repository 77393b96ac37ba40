// AttentionCase: one layer's attention over a paged KV cache of given lengths, through the
// interface of kernels/attention.h, on each path that serves it. Several KV caches take turns, so
// that none of them is still in a cache of the device.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/bench/kernels/graph_timer.h"
#include "tools/bench/kernels/op_recorder.h"
#include "tools/bench/kernels/ragged_plan.h"

namespace quire::bench {

struct AttentionShape {
  std::string name;
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t block_size;
  BatchLengths lengths;
  DType kv_dtype = DType::kBF16;  // or float16, or one of 8 bits
  int32_t shared_prefix_len = 0;  // tokens, whole blocks, that all sequences have in common
  // Also measures plans that read new tokens where a gemm leaves them, beside plans that read only
  // the cache.
  bool has_ragged = false;
  bool is_token_major = false;  // blocks are [block_size, num_kv_heads, head_dim]

  // Queries and results are float16 beside a cache of float16, else bfloat16.
  DType query_dtype() const { return kv_dtype == DType::kF16 ? DType::kF16 : DType::kBF16; }
  AttentionGeometry geometry() const;
  // Query tokens of each sequence if this is a step of decodes; else 0.
  int32_t DecodeQueryLen() const;
};

class AttentionCase {
 public:
  // The blocks of a sequence lie anywhere in the cache, in an order that `seed` decides. Null if
  // the free memory is too small; the output and `result` then say so.
  static absl::StatusOr<std::unique_ptr<AttentionCase>> Create(GraphTimer& timer,
                                                               const AttentionShape& shape,
                                                               uint64_t seed,
                                                               nlohmann::ordered_json* result);
  // The kernels of the first PagedAttention, with which the paths are compared.
  static constexpr std::string_view kClassic = "classic";
  // The names of the paths that compute the shape, and kClassic. Empty if a prefix is shared, or if
  // new tokens are read apart from the cache.
  const std::vector<std::string>& names() const { return names_; }
  // The time that the i-th of names() takes to plan.
  absl::StatusOr<double> PlanUs(size_t i);
  // The times of names(), in that order; they take turns. If a prefix is shared: the times, on the
  // fastest path, of decodes that read the prefix with each sequence, and of decodes that read it
  // once. If new tokens are read apart: the times of the native path without that, and with it.
  absl::StatusOr<std::vector<double>> RunUs();
  double kv_bytes() const { return AttentionKvBytes(geometry_, shape_.lengths); }
  double flops() const { return AttentionFlops(geometry_, shape_.lengths); }

 private:
  AttentionCase(GraphTimer& timer, const AttentionShape& shape, uint64_t seed)
      : timer_(timer), shape_(shape), seed_(seed), geometry_(shape.geometry()) {}
  absl::Status UploadBatch();
  absl::Status CreatePlans();
  absl::Status CreateClassicPlans(const AttentionLimits& limits);
  absl::Status CreateCascadePlans(const AttentionLimits& limits);
  absl::Status UploadPrefix();
  absl::Status CreateRaggedPlans(const AttentionLimits& limits);
  absl::StatusOr<RaggedTokens> UploadOwnTokens();
  absl::Status MakeCaches();
  bool IsServedBy(const AttentionCapabilities& path) const;
  const AttentionPlan& PlanFor(size_t i, size_t cache) const;
  void Run(const AttentionPlan& plan, const DeviceBuffer& cache);
  int64_t block_elements() const;  // of K, and of V

  GraphTimer& timer_;
  const AttentionShape shape_;
  const uint64_t seed_;
  const AttentionGeometry geometry_;
  int64_t num_blocks_ = 0;
  DeviceBuffer cu_seqlens_q_, seq_lens_, rows_, tables_, q_, out_;
  DeviceBuffer prefix_cu_seqlens_q_, prefix_lens_, first_blocks_, rest_lens_;
  AttentionBatch batch_ = {};
  std::vector<std::string> names_;
  using Plans = std::vector<std::unique_ptr<AttentionPlan>>;
  std::vector<Plans> plans_;  // for each name: one plan, or one for each cache
  std::vector<DeviceBuffer> caches_;
  DeviceBuffer own_lens_, own_prefix_lens_, own_tables_;
  std::vector<DeviceBuffer> own_kv_;  // of new tokens, beside each cache
};

}  // namespace quire::bench
