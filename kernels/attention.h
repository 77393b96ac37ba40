// The attention door: a path of a backend says what it supports and makes a plan per layer group,
// which is planned once per step and run once per layer. KV is written to the cache before
// attention reads it. Planning is enqueued on the stream and reads the step's metadata from device
// memory, so plan and run can be captured in a graph and replayed with new contents at the same
// addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device.h"
#include "kernels/op_args.h"

namespace quire {

enum class AttentionPath : uint8_t { kNative, kTrtllm };

// Sequences with one query token, and all others. A step may have both.
enum class AttentionPhase : uint8_t { kDecode, kPrefill };

// Which batches a captured graph may hold (vLLM's AttentionCGSupport), each level those before it:
// none; one query token per sequence; equally many each; any.
enum class GraphSupport : uint8_t { kNever, kSingleTokenDecode, kUniformBatch, kAlways };

struct AttentionCapabilities {
  AttentionPath path;
  std::vector<DType> query_dtypes;
  std::vector<DType> kv_dtypes;
  std::vector<int> head_dims;  // empty: every multiple of 8 up to max_head_dim
  int max_head_dim = 256;
  std::vector<int> block_sizes;
  int max_group_size = 0;      // query heads of a KV head; 0: any number
  int min_sm = 0, max_sm = 0;  // 0: not a CUDA path
  bool soft_cap = false;
  bool sliding_window = false;
  bool sinks = false;
  int max_decode_query_len = 1;  // tokens of a sequence that a uniform decode step may have
  int64_t max_num_seqs = 0;      // of a step; 0: any number
  GraphSupport graph_support = GraphSupport::kNever;
};

// The properties that all layers of a group share.
struct AttentionGeometry {
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t k_head_dim;  // elements of a query and of a key
  int32_t v_head_dim;  // of a value and of a result
  int32_t block_size;
  DType query_dtype;  // and of results: float32 or 16 bits
  DType kv_dtype;
  float scale;                 // multiplies q.k; usually k_head_dim^-0.5
  int64_t sliding_window = 0;  // a query sees this many tokens, itself included; 0 = all
  float soft_cap = 0;          // > 0: logit = cap * tanh(logit / cap)
  bool sinks = false;          // runs are given sinks
};

struct AttentionLimits {
  int64_t max_num_seqs;
  int64_t max_num_batched_tokens;
  int64_t max_blocks_per_seq;
  std::optional<AttentionPhase> only_phase = {};  // that all sequences have; none: either
  // Only for plans of prompts. Before each run another plan's run has left in `out` and `lse` the
  // attention of the same queries to other keys, and nothing else runs between the two on the
  // stream. This run adds its own keys: `out` then is the attention to the keys of both. There are
  // no sinks, because they would count twice.
  bool merges = false;
};

// Decodes whose sequences begin with the same blocks, for plans that read such a prefix once for
// all of them. The batch has the same information, so a plan may ignore this. The groups of
// decodes follow each other from the first decode on. The last group may have no prefix: it holds
// the decodes that share none. Device pointers at fixed addresses.
struct SharedPrefixes {
  int32_t num_groups = 0;       // 0: nothing is known
  const int32_t* cu_seqlens_q;  // [num_groups + 1] decodes of each group
  const int32_t* prefix_lens;   // [num_groups] tokens, whole blocks
  const int32_t* prefix_rows;   // [num_groups] row of block_tables that has the prefix
  // [num_decodes] for each decode: how many blocks its prefix has, and its seq_lens without them,
  // which is at least 1 except for padding.
  const int32_t* first_blocks;
  const int32_t* seq_lens;
};

// This step's batch, or the part of it that one path computes; device pointers at fixed addresses;
// decodes come first. Query token j of sequence i sees keys
// [0, seq_lens[i] - (query_len_i - 1 - j)), less the window. Query tokens outside
// [cu_seqlens_q[0], cu_seqlens_q[num_seqs]) are another path's: their rows of the output stay.
struct AttentionBatch {
  int32_t num_seqs;
  int32_t num_tokens;   // rows of q, other parts' included
  int32_t num_decodes;  // sequences 0..num_decodes-1 have decode_query_len query tokens each
  int32_t decode_query_len = 1;
  const int32_t* cu_seqlens_q;  // [num_seqs + 1]
  const int32_t* seq_lens;      // [num_seqs], this step's tokens included; 0 = padding
  const int32_t* seq_rows;      // [num_seqs], row of each sequence in block_tables
  const BlockId* block_tables;  // [max_num_seqs, max_blocks_per_seq] of this layer group
  int64_t block_table_stride;   // max_blocks_per_seq
  // Where in its row the keys of each sequence begin, [num_seqs]; seq_lens counts from there, and
  // so does the window. Null: all at the first block.
  const int32_t* first_blocks = nullptr;
  // False: each query sees all keys of its sequence; for prompts, and decodes of one token.
  bool causal = true;
  SharedPrefixes prefixes = {};
};

struct AttentionRunArgs {
  Tensor q;              // [num_tokens, num_q_heads, k_head_dim]
  KvCacheView kv_cache;  // this layer's
  Tensor out;            // [num_tokens, num_q_heads, v_head_dim], of the queries' type
  float* lse =
      nullptr;  // [num_tokens, num_q_heads] base-2 log-sum-exp of the scaled logits, or null
  // [num_q_heads], on the device, if the geometry has sinks, else null: one logit for each query
  // head (base e, not scaled). It adds to the softmax's denominator and to lse, but has no value.
  const float* sinks = nullptr;
};

// The attention of one layer group: its work lists and workspace, at fixed addresses; made once,
// planned anew for each step. Engine thread.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  // Enqueues the making of this step's work lists. Until the plan's last run, only the step's own
  // tokens (the last ones of each sequence) may be written to the cache and the batch.
  virtual void PlanStep(Stream& stream, const AttentionBatch& batch) = 0;
  // Enqueues the attention of one layer over the batch that was planned last. Arguments that do not
  // fit the plan's geometry fail a CHECK.
  virtual void Run(Stream& stream, const AttentionRunArgs& args) const = 0;
};

// One path of a backend.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  virtual const AttentionCapabilities& capabilities() const = 0;

  // One plan per layer group. Their runs follow each other on one stream, so they share the memory
  // for partial results. INVALID_ARGUMENT, naming the field, for a geometry or limits outside the
  // capabilities.
  virtual absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePlans(
      absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) = 0;
  // The same for one group.
  absl::StatusOr<std::unique_ptr<AttentionPlan>> CreatePlan(const AttentionGeometry& geometry,
                                                            const AttentionLimits& limits) {
    auto plans = CreatePlans({&geometry, 1}, limits);
    if (!plans.ok()) return plans.status();
    return std::move(plans->front());
  }
};

}  // namespace quire
