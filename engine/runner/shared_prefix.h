// SharedPrefixFinder: finds the decodes of a step that begin with the same blocks of the KV cache,
// so that attention may read these blocks once for all of them (cascade_plan.h). Plain host code,
// engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/scheduler_output.h"

namespace quire {

// Decodes that have a prefix of this many blocks in common.
struct PrefixGroup {
  int32_t num_seqs;
  int32_t num_blocks;
};

// The decodes of a step, in an order in which the decodes of a group follow each other.
struct PrefixOrder {
  std::vector<int32_t> sequences;   // the groups' sequences, then all others in their old order
  std::vector<PrefixGroup> groups;  // empty: too little would be saved
};

class SharedPrefixFinder {
 public:
  static constexpr int kMaxGroups = 32;
  // The least number of sequences that is worth a group: a tile of rows has the queries of several.
  static constexpr int kMinSequences = 4;

  // Groups are used if they save the reading of at least `min_saved_tokens` tokens.
  SharedPrefixFinder(int32_t block_size, int64_t min_saved_tokens)
      : block_size_(block_size), min_saved_tokens_(min_saved_tokens) {}

  // Finds the groups in the first layer group's block tables. A prefix ends before the decoded
  // token, at a multiple of 128 tokens. A sequence is in the group of its longest prefix that at
  // least kMinSequences sequences have. Time grows with the shared prefixes, not with the others.
  // Valid until the next call.
  const PrefixOrder& Find(absl::Span<const ScheduledSequence> decodes);

 private:
  // A sequence and its longest prefix: `block` is the last of its `num_blocks`.
  struct Sharer {
    int32_t sequence;
    BlockId block;
    int32_t num_blocks;
  };

  void FindSharers(absl::Span<const ScheduledSequence> decodes);
  void MakeGroups();
  int32_t& CountOf(BlockId block);

  const int32_t block_size_;
  const int64_t min_saved_tokens_;
  std::vector<Sharer> sharers_;  // [decodes] num_blocks is 0 if nothing is shared
  std::vector<int32_t> counts_;  // by block; all zero between calls
  PrefixOrder order_;
};

}  // namespace quire
