#include "kvcache/block_pool.h"

#include <limits>

#include "kernels/base/check.h"

namespace quire {

BlockPool::BlockPool(int64_t num_blocks)
    : end_(static_cast<BlockId>(num_blocks)), blocks_(num_blocks + 1) {
  CHECK_GT(num_blocks, 0);
  CHECK_LT(num_blocks, std::numeric_limits<BlockId>::max());
  blocks_[end_].previous = blocks_[end_].next = end_;
  for (BlockId block = 0; block < num_blocks; ++block) LinkAfter(block, blocks_[end_].previous);
}

BlockId BlockPool::Take() {
  const BlockId block = blocks_[end_].next;
  if (block == end_) return kNoBlock;
  AddReference(block);
  return block;
}

void BlockPool::AddReference(BlockId block) {
  CHECK(block >= 0 && block < end_) << "block " << block;
  if (blocks_[block].num_references++ == 0) Unlink(block);
}

void BlockPool::DropReference(BlockId block, bool worth_keeping) {
  CHECK(block >= 0 && block < end_) << "block " << block;
  CHECK_GT(blocks_[block].num_references, 0);
  if (--blocks_[block].num_references > 0) return;
  LinkAfter(block, worth_keeping ? blocks_[end_].previous : end_);
}

void BlockPool::Unlink(BlockId block) {
  Block& b = blocks_[block];
  CHECK_NE(b.next, kNoBlock);
  CHECK_NE(b.previous, kNoBlock);
  blocks_[b.previous].next = b.next;
  blocks_[b.next].previous = b.previous;
  b.previous = b.next = kNoBlock;
  --num_free_;
}

void BlockPool::LinkAfter(BlockId block, BlockId previous) {
  Block& b = blocks_[block];
  CHECK_EQ(b.next, kNoBlock);
  CHECK_EQ(b.num_references, 0);
  b.previous = previous;
  b.next = blocks_[previous].next;
  blocks_[b.next].previous = block;
  blocks_[previous].next = block;
  ++num_free_;
}

}  // namespace quire
