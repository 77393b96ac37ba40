// SharedPrefixFinder: which decodes of a step begin with the same blocks of the KV cache, so that
// attention may read those once for all of them (cascade_plan.h). Plain host code, engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/scheduler_output.h"

namespace quire {

// Decodes with a prefix of so many blocks in common.
struct PrefixGroup {
  int32_t num_seqs;
  int32_t num_blocks;
};

// The decodes of a step in an order in which those of a group follow each other.
struct PrefixOrder {
  std::vector<int32_t> sequences;   // those of the groups, then all others as they came
  std::vector<PrefixGroup> groups;  // none: too little would be saved
};

class SharedPrefixFinder {
 public:
  static constexpr int kMaxGroups = 32;
  // Fewer sequences are not worth a group: a tile of rows has the queries of several.
  static constexpr int kMinSequences = 4;

  // Groups are worth it where they spare the reading of at least `min_saved_tokens` tokens.
  SharedPrefixFinder(int32_t block_size, int64_t min_saved_tokens)
      : block_size_(block_size), min_saved_tokens_(min_saved_tokens) {}

  // Of the first layer group's block tables. A prefix ends before the token that is decoded, at a
  // multiple of 128 tokens. A sequence is in the group of its longest prefix that kMinSequences
  // have. Time grows with the prefixes that are shared, not with the others. Valid until the next
  // call.
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
  std::vector<Sharer> sharers_;  // [decodes] num_blocks is 0 where nothing is shared
  std::vector<int32_t> counts_;  // by block; all zero between calls
  PrefixOrder order_;
};

}  // namespace quire
