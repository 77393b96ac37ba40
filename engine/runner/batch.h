// BatchMetadata: one step's batch in the form that the kernels read. Its arrays are packed into one
// buffer, once in pinned host memory (written by BatchBuilder) and once on the device (one copy).
// The place of each array depends only on the step's shape. So steps of equal shape have their
// arrays at equal addresses, and a captured graph of that shape can read them.
#pragma once

#include <compare>
#include <cstdint>
#include <tuple>
#include <vector>

#include "engine/runner/shared_prefix.h"
#include "kernels/gated_delta.h"
#include "kernels/op_args.h"
#include "kernels/sampling.h"
#include "scheduler/token_constraint.h"

namespace quire {

struct BatchLimits {
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;  // of one step
  int64_t max_blocks_per_seq = 0;
  int32_t block_size = 0;
  int32_t num_groups = 0;         // layer groups of the KV cache
  int64_t max_block_updates = 0;  // sent with the step; further ones are sent ahead in pieces
  int64_t max_bias_per_seq = 0;   // logit bias entries, bans of end tokens included
  // Attention learns of prefixes that decodes share if they save the reading of at least this many
  // tokens; 0: never.
  int64_t min_prefix_tokens = 0;
  // Snapshots of recurrent states are taken at multiples of this many tokens; 0: no layer keeps a
  // state.
  int32_t snapshot_grid = 0;

  // Rows of logits: one per sampling sequence, and one per prompt token that is scored.
  int64_t max_logit_rows() const { return max_num_seqs + max_num_batched_tokens; }
};

// Lengths of one step's arrays.
struct BatchShape {
  int64_t num_seqs = 0;
  int64_t num_tokens = 0;
  int64_t num_groups = 0;
  int64_t num_logit_rows = 0;
  int64_t num_bias = 0;
  int64_t num_block_updates = 0;
  int64_t num_prefix_groups = 0;  // 0, or the largest possible number
  int64_t num_states = 0;         // 0, or num_seqs
  int64_t num_snapshots = 0;
};
// The groups that SharedPrefixFinder finds, and one group of all other decodes.
inline constexpr int64_t kNumPrefixGroups = SharedPrefixFinder::kMaxGroups + 1;
BatchShape MaxShape(const BatchLimits& limits);

// A uniform step: each sequence has the same number of query tokens, and the last one yields a
// sample. Decodes have one query token; the verification of drafts has more. Decodes that share
// prefixes are steps of another kind.
struct UniformSize {
  int32_t query_len;
  int32_t num_seqs;
  bool shares_prefixes = false;
  friend bool operator==(const UniformSize&, const UniformSize&) = default;
  // By kind, then by query length, then by number.
  friend std::strong_ordering operator<=>(const UniformSize& a, const UniformSize& b) {
    return std::tie(a.shares_prefixes, a.query_len, a.num_seqs) <=>
           std::tie(b.shares_prefixes, b.query_len, b.num_seqs);
  }
};

// Shape of a uniform step padded to this size, with room for the new blocks of every layer group.
// Two such steps of one size differ only in the length of `bias`.
BatchShape UniformShape(const BatchLimits& limits, UniformSize size);

// Pointers into one buffer, host or device.
struct BatchArrays {
  int32_t* seq_rows;                // [num_seqs]
  int32_t* seq_lens;                // [num_seqs] this step's tokens included
  int32_t* cu_seqlens_q;            // [num_seqs + 1]
  int32_t* input_ids;               // [num_tokens]; ~row = the row's last sampled token
  int64_t* positions;               // [num_tokens]
  int64_t* slot_mapping;            // [num_groups, num_tokens]
  int32_t* logits_indices;          // [num_logit_rows] token of each row of logits
  SamplingRow* sampling;            // [num_logit_rows]
  BlockTableUpdate* block_updates;  // [num_block_updates]
  // SharedPrefixes, if the shape has groups.
  int32_t* prefix_cu_seqlens_q;  // [num_prefix_groups + 1]
  int32_t* prefix_lens;          // [num_prefix_groups]
  int32_t* prefix_rows;          // [num_prefix_groups]
  int32_t* first_blocks;         // [num_seqs]
  int32_t* rest_lens;            // [num_seqs]
  StateAccess* states;           // [num_states]
  StateSnapshot* snapshots;      // [num_snapshots]
  LogitBias* bias;               // [num_bias]; it is last, so that its length moves no other array
};

class BatchLayout {
 public:
  explicit BatchLayout(const BatchShape& shape) : shape_(shape) {}
  BatchArrays At(void* base) const;
  int64_t size_bytes() const;

 private:
  BatchShape shape_;
};

// Which rows of logits belong to one sequence of the step.
struct LogitRows {
  int32_t sampled = -1;      // -1: the sequence samples nothing in this step
  int32_t first_scored = 0;  // rows that score prompt tokens start + 1, start + 2, ...
  int32_t num_scored = 0;
};

struct BatchMetadata {
  BatchShape shape;       // where the arrays lie
  int uniform_size = -1;  // index of the shape's padded size; -1: not padded
  int32_t num_seqs = 0;
  int32_t num_tokens = 0;
  int32_t num_decodes = 0;       // sequences 0 .. num_decodes-1 have one token each
  int32_t num_sampled_rows = 0;  // rows [0, num_sampled_rows) sample, the others score
  int32_t num_logit_rows = 0;
  int64_t num_block_updates = 0;  // updates that are left in the array
  int32_t num_snapshots = 0;
  bool any_logprobs = false;
  // The constraints of the sampled rows that have one, by SamplingRow::mask.
  std::vector<TokenConstraint*> constraints;
  std::vector<LogitRows> logit_rows;  // [num_seqs]
};

// The counts of a uniform step whose sequences may all be real. Such a step is captured for every
// step padded to that size.
BatchMetadata FullUniformBatch(const BatchLimits& limits, UniformSize size);

}  // namespace quire
