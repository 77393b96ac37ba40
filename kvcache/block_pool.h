// BlockPool: reference counts of the blocks and the order in which unreferenced ones are reused.
// The free list runs through the blocks themselves, so every operation is O(1) and nothing is
// allocated. Invariant: a block is in the free list exactly when its reference count is zero. One
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/base/types.h"

namespace quire {

class BlockPool {
 public:
  explicit BlockPool(int64_t num_blocks);

  // Takes the block at the front of the free list and gives it one reference; kNoBlock if none.
  BlockId Take();

  // Adds a reference; a free block leaves the free list.
  void AddReference(BlockId block);

  // Drops a reference. A block that becomes free is reused last if its contents are `worth_keeping`
  // (least recently released first among those), next if they are not.
  void DropReference(BlockId block, bool worth_keeping);

  int32_t num_references(BlockId block) const { return blocks_[block].num_references; }
  int64_t num_free() const { return num_free_; }
  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()) - 1; }

  // Calls visit(block) for all free blocks, next to be reused first.
  template <typename Visit>
  void ForEachFree(Visit visit) const {
    for (BlockId b = blocks_[end_].next; b != end_; b = blocks_[b].next) visit(b);
  }

 private:
  struct Block {
    int32_t num_references = 0;
    BlockId previous = kNoBlock;  // neighbours in the free list; kNoBlock when not in it
    BlockId next = kNoBlock;
  };

  void Unlink(BlockId block);
  void LinkAfter(BlockId block, BlockId previous);

  BlockId end_;                // the list is a ring through this extra element
  std::vector<Block> blocks_;  // [num_blocks + 1]
  int64_t num_free_ = 0;
};

}  // namespace quire
