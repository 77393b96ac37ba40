// PrefixIndex: finds the block that caches given contents. A 64-bit key taken from the block's hash
// finds the candidate; the whole hash and the block's own tokens, both kept beside it, decide. So a
// collision costs a miss and never a wrong hit. Groups of layers are kept apart. Invariant: a block
// is entered at most once, and its entry never changes until it is erased. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "kvcache/block_hash.h"
#include "kvcache/kv_event_listener.h"

namespace quire {

class PrefixIndex {
 public:
  // `key_bits` of each hash make the key (1 .. 64); fewer than 64 only to force collisions in
  // tests.
  PrefixIndex(int64_t num_blocks, int32_t block_size, int num_groups, int key_bits);

  // The block of `group` that holds these contents, or kNoBlock.
  BlockId Find(int group, const BlockHash& hash, absl::Span<const TokenId> tokens) const;

  // Enters `block`, which follows `place.parent` as number `place.index` of its sequence. False
  // when its key is taken, by equal contents or by a collision.
  struct Place {
    int64_t index = 0;
    uint64_t parent = 0;  // ShortHash; none of the first block
  };
  bool Insert(int group, const BlockHash& hash, absl::Span<const TokenId> tokens, BlockId block,
              const Place& place = {0, 0});

  void Erase(BlockId block);

  // The group of a block that is in the index.
  int group(BlockId block) const { return entries_[block].group; }
  const BlockHash& hash(BlockId block) const { return entries_[block].hash; }
  CachedBlock Describe(BlockId block) const;
  // The blocks of `group`, each after its parent, if that is there.
  std::vector<BlockId> Blocks(int group) const;

  bool Contains(BlockId block) const { return entries_[block].group >= 0; }
  int64_t size() const { return size_; }

  // CHECKs that keys and entries agree.
  void CheckInvariants() const;

 private:
  struct Entry {
    int group = -1;  // -1: the block is not in the index
    BlockHash hash;
    Place place;
  };

  uint64_t Key(const BlockHash& hash) const;
  absl::Span<const TokenId> TokensOf(BlockId block) const {
    return absl::MakeConstSpan(tokens_).subspan(static_cast<size_t>(block) * block_size_,
                                                block_size_);
  }

  size_t block_size_;
  uint64_t key_mask_;
  std::vector<absl::flat_hash_map<uint64_t, BlockId>> blocks_by_key_;  // [num_groups]
  std::vector<Entry> entries_;                                         // [num_blocks]
  std::vector<TokenId> tokens_;  // [num_blocks, block_size] contents of entered blocks
  int64_t size_ = 0;
};

}  // namespace quire
