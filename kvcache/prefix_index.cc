#include "kvcache/prefix_index.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/check.h"

namespace quire {

PrefixIndex::PrefixIndex(int64_t num_blocks, int32_t block_size, int num_groups, int key_bits)
    : block_size_(block_size),
      key_mask_(key_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << key_bits) - 1),
      blocks_by_key_(num_groups),
      entries_(num_blocks),
      tokens_(num_blocks * block_size) {
  CHECK(key_bits >= 1 && key_bits <= 64) << key_bits;
  CHECK_GT(block_size, 0);
}

BlockId PrefixIndex::Find(int group, const BlockHash& hash,
                          absl::Span<const TokenId> tokens) const {
  CHECK_EQ(tokens.size(), block_size_);
  const auto it = blocks_by_key_[group].find(Key(hash));
  if (it == blocks_by_key_[group].end()) return kNoBlock;
  const BlockId block = it->second;
  if (entries_[block].hash != hash || TokensOf(block) != tokens) return kNoBlock;
  return block;
}

bool PrefixIndex::Insert(int group, const BlockHash& hash, absl::Span<const TokenId> tokens,
                         BlockId block, const Place& place) {
  CHECK_EQ(tokens.size(), block_size_);
  CHECK(!Contains(block)) << "block " << block;
  if (!blocks_by_key_[group].emplace(Key(hash), block).second) return false;
  entries_[block] = {group, hash, place};
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + block * block_size_);
  ++size_;
  return true;
}

void PrefixIndex::Erase(BlockId block) {
  CHECK(Contains(block)) << "block " << block;
  Entry& entry = entries_[block];
  CHECK_EQ(blocks_by_key_[entry.group].erase(Key(entry.hash)), size_t{1});
  entry.group = -1;
  --size_;
}

CachedBlock PrefixIndex::Describe(BlockId block) const {
  CHECK(Contains(block)) << "block " << block;
  const Entry& entry = entries_[block];
  CachedBlock described;
  if (entry.place.index > 0) described.parent = entry.place.parent;
  described.hash = ShortHash(entry.hash);
  described.tokens = TokensOf(block);
  return described;
}

// Lists one chain after the other, so that each block mostly follows its parent at once. A list
// sorted only by the place in the chain would have the equal places of all chains together.
std::vector<BlockId> PrefixIndex::Blocks(int group) const {
  std::vector<BlockId> blocks;
  absl::flat_hash_map<uint64_t, std::vector<BlockId>> children;
  absl::flat_hash_map<uint64_t, BlockId> by_hash;
  for (const auto& [key, block] : blocks_by_key_[group])
    by_hash[ShortHash(entries_[block].hash)] = block;
  std::vector<BlockId> open;
  for (const auto& [key, block] : blocks_by_key_[group]) {
    const Place& place = entries_[block].place;
    if (place.index > 0 && by_hash.contains(place.parent)) {
      children[place.parent].push_back(block);
    } else {
      open.push_back(block);
    }
  }
  while (!open.empty()) {
    const BlockId block = open.back();
    open.pop_back();
    blocks.push_back(block);
    const auto found = children.find(ShortHash(entries_[block].hash));
    if (found == children.end()) continue;
    open.insert(open.end(), found->second.begin(), found->second.end());
    children.erase(found);
  }
  return blocks;
}

void PrefixIndex::CheckInvariants() const {
  int64_t num_keys = 0;
  for (size_t group = 0; group < blocks_by_key_.size(); ++group) {
    for (const auto& [key, block] : blocks_by_key_[group]) {
      CHECK_EQ(entries_[block].group, static_cast<int>(group));
      CHECK_EQ(Key(entries_[block].hash), key);
      ++num_keys;
    }
  }
  CHECK_EQ(num_keys, size_);
  CHECK_EQ(std::count_if(entries_.begin(), entries_.end(),
                         [](const Entry& entry) { return entry.group >= 0; }),
           size_);
}

uint64_t PrefixIndex::Key(const BlockHash& hash) const {
  uint64_t key;
  std::memcpy(&key, hash.bytes.data(), sizeof(key));
  return key & key_mask_;
}

}  // namespace quire
