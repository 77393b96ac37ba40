// BlockTable: the part of the KV cache and of the states that one sequence holds. Engine thread
// only.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/base/types.h"
#include "kvcache/block_hash.h"

namespace quire {

// The blocks of one sequence, per layer group: blocks[g][i] holds tokens [i * block_size, ...) of
// group g, or kNoBlock where the group's window has passed it. Filled by BlockManager only; must be
// released. A table belongs to one sequence of tokens and one salt for its whole life, so the
// hashes outlive Release and no block of tokens is hashed twice.
struct BlockTable {
  std::vector<std::vector<BlockId>> blocks;
  // First block of each group that may still be held (earlier ones slid out of the window).
  std::vector<int64_t> first_held;
  int64_t num_published = 0;  // leading blocks that were attached or offered to the prefix cache
  BlockHash root;             // the first block chains to it; set with the first hash
  std::vector<BlockHash> hashes;  // chained hashes of the leading full blocks, as far as known
  int64_t num_paged_tokens = 0;   // PrefixMatch's, when it was attached
  StateSlot state = kNoState;     // the sequence's own, taken with its first new block
  // The snapshot that its first step begins from, until ReleaseBeginning.
  StateSlot begins_from = kNoState;

  bool empty() const { return blocks.empty() || blocks[0].empty(); }
  int64_t num_held() const {  // blocks referenced, over all groups
    int64_t count = 0;
    for (size_t g = 0; g < blocks.size(); ++g) count += blocks[g].size() - first_held[g];
    return count;
  }
};

}  // namespace quire
