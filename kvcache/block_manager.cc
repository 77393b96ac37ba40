#include "kvcache/block_manager.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"

namespace quire {
namespace {

int KeyBits(const BlockManagerConfig& config) {
  return config.hash_bits_for_test > 0 ? config.hash_bits_for_test : 64;
}

}  // namespace

int64_t MaxBlocksFor(absl::Span<const KvSpec> groups, int32_t block_size, int64_t num_tokens,
                     int64_t max_step_tokens) {
  CHECK_GE(num_tokens, 0);
  CHECK_GE(max_step_tokens, 1);
  int64_t max_blocks = 0;
  for (const KvSpec& group : groups) {
    int64_t in_group = CeilDiv<int64_t>(num_tokens, block_size);
    if (group.sliding_window > 0) {
      // window - 1 tokens behind the step and the step itself, neither end aligned to a block.
      const int64_t visible = group.sliding_window - 1 + max_step_tokens;
      in_group = std::min(in_group, CeilDiv<int64_t>(visible, block_size) + 1);
    }
    max_blocks += in_group;
  }
  return max_blocks;
}

BlockManager::BlockManager(const BlockManagerConfig& config)
    : config_(config),
      hasher_(config.hash_context),
      pool_(config.num_blocks),
      index_(config.num_blocks, config.block_size, static_cast<int>(config.groups.size()),
             KeyBits(config)) {
  CHECK_GT(config.block_size, 0);
  CHECK(!config.groups.empty());
  for (const KvSpec& group : config.groups) CHECK_GE(group.sliding_window, 0);
  event_group_ = EventGroup();
  if (config.num_state_slots == 0) return;
  CHECK_GT(config.snapshot_grid, 0);
  CHECK_EQ(config.snapshot_grid % config.block_size, 0);
  states_.emplace(config.num_state_slots, config.num_reserved_states, config.block_size,
                  KeyBits(config));
}

PrefixMatch BlockManager::FindPrefix(absl::Span<const TokenId> tokens, std::string_view salt,
                                     BlockTable* table) {
  CHECK(!tokens.empty());
  if (!config_.enable_prefix_caching) return {};
  int64_t num_blocks = (tokens.size() - 1) / config_.block_size;
  ExtendHashes(table, tokens, num_blocks, salt);
  num_blocks = AgreedPrefix(tokens, *table, num_blocks);

  PrefixMatch match;
  match.num_paged_tokens = num_blocks * config_.block_size;
  while (states_.has_value()) {
    const int64_t usable = UsableStates(tokens, *table, num_blocks, &match.is_refused);
    if (usable == num_blocks) break;
    num_blocks = AgreedPrefix(tokens, *table, usable);
  }
  match.num_tokens = num_blocks * config_.block_size;
  for (int group = 0; group < num_groups(); ++group) {
    for (int64_t i = FirstVisibleBlock(group, match.num_tokens); i < num_blocks; ++i) {
      const BlockId block = index_.Find(group, table->hashes[i], TokensOfBlock(tokens, i));
      CHECK_NE(block, kNoBlock);
      ++match.num_blocks;
      if (pool_.num_references(block) == 0) ++match.num_free_blocks;
    }
  }
  return match;
}

int64_t BlockManager::AttachPrefix(absl::Span<const TokenId> tokens, std::string_view salt,
                                   BlockTable* table) {
  CHECK(table->empty());
  const PrefixMatch match = FindPrefix(tokens, salt, table);
  const int64_t num_tokens = match.num_tokens;
  const int64_t num_blocks = num_tokens / config_.block_size;
  table->blocks.resize(num_groups());
  table->first_held.assign(num_groups(), 0);
  for (int group = 0; group < num_groups(); ++group) {
    const int64_t first = std::min(FirstVisibleBlock(group, num_tokens), num_blocks);
    table->first_held[group] = first;
    table->blocks[group].assign(first, kNoBlock);
    for (int64_t i = first; i < num_blocks; ++i) {
      const BlockId block = index_.Find(group, table->hashes[i], TokensOfBlock(tokens, i));
      AddReference(block);
      table->blocks[group].push_back(block);
    }
  }
  table->num_published = num_blocks;
  table->num_paged_tokens = match.num_paged_tokens;
  if (states_.has_value() && num_blocks > 0) {
    table->begins_from =
        states_->Find(table->hashes[num_blocks - 1], TokensOfBlock(tokens, num_blocks - 1));
    states_->Hold(table->begins_from);
  }
  if (match.is_refused) states_->NoteRefused();
  num_recomputed_tokens_ += match.num_paged_tokens - num_tokens;
  if (config_.enable_prefix_caching) prefix_queried_tokens_ += tokens.size();
  prefix_hit_tokens_ += num_tokens;
  return num_tokens;
}

bool BlockManager::TryGrow(BlockTable* table, int64_t num_tokens) {
  const int64_t num_missing = NumBlocksToGrow(*table, num_tokens);
  if (num_missing == 0 && !table->empty()) return true;  // most steps of most sequences
  if (num_missing > pool_.num_free()) return false;
  table->blocks.resize(num_groups());
  table->first_held.resize(num_groups(), 0);
  const int64_t target = CeilDiv<int64_t>(num_tokens, config_.block_size);
  for (std::vector<BlockId>& blocks : table->blocks) {
    while (static_cast<int64_t>(blocks.size()) < target) blocks.push_back(TakeBlock());
  }
  const bool lacks_state = table->state == kNoState && !table->empty();
  if (states_.has_value() && lacks_state) table->state = states_->Take();
  return true;
}

int64_t BlockManager::NumBlocksToGrow(const BlockTable& table, int64_t num_tokens) const {
  CHECK_GE(num_tokens, 0);
  // All groups cover the same tokens, so all have equally many entries.
  const int64_t current = table.empty() ? 0 : table.blocks[0].size();
  if (num_tokens <= current * config_.block_size) return 0;
  return (CeilDiv<int64_t>(num_tokens, config_.block_size) - current) * num_groups();
}

void BlockManager::Shrink(BlockTable* table, int64_t num_tokens) {
  CHECK_GE(num_tokens, table->num_published * config_.block_size);
  const int64_t target = CeilDiv<int64_t>(num_tokens, config_.block_size);
  for (size_t group = 0; group < table->blocks.size(); ++group) {
    std::vector<BlockId>& blocks = table->blocks[group];
    CHECK_LE(table->first_held[group], target) << "tokens behind the window cannot be rejected";
    while (static_cast<int64_t>(blocks.size()) > target) {
      DropReference(blocks.back());
      blocks.pop_back();
    }
  }
}

void BlockManager::Publish(BlockTable* table, absl::Span<const TokenId> tokens,
                           int64_t num_computed, std::string_view salt) {
  CHECK_LE(num_computed, static_cast<int64_t>(tokens.size()));
  const int64_t num_full = num_computed / config_.block_size;
  if (!config_.enable_prefix_caching || num_full <= table->num_published) return;
  ExtendHashes(table, tokens, num_full, salt);
  for (int group = 0; group < num_groups(); ++group) {
    const std::vector<BlockId>& blocks = table->blocks[group];
    CHECK_LE(num_full, static_cast<int64_t>(blocks.size()));
    for (int64_t i = table->num_published; i < num_full; ++i) {
      if (blocks[i] == kNoBlock) continue;
      // A refused block stays private: its contents, or a collision, are cached elsewhere.
      const uint64_t parent = i == 0 ? 0 : ShortHash(table->hashes[i - 1]);
      const bool inserted = index_.Insert(group, table->hashes[i], TokensOfBlock(tokens, i),
                                          blocks[i], {.index = i, .parent = parent});
      if (listener_ != nullptr && inserted && group == event_group_) {
        listener_->OnStored(index_.Describe(blocks[i]));
      }
    }
  }
  table->num_published = num_full;
}

void BlockManager::ReleaseOutsideWindow(BlockTable* table, int64_t num_computed) {
  for (size_t group = 0; group < table->blocks.size(); ++group) {
    std::vector<BlockId>& blocks = table->blocks[group];
    const int64_t first_visible =
        std::min<int64_t>(FirstVisibleBlock(static_cast<int>(group), num_computed), blocks.size());
    for (int64_t& i = table->first_held[group]; i < first_visible; ++i) {
      DropReference(blocks[i]);
      blocks[i] = kNoBlock;
    }
  }
}

void BlockManager::ReleaseBeginning(BlockTable* table) {
  if (table->begins_from != kNoState) states_->Drop(std::exchange(table->begins_from, kNoState));
}

StateSlot BlockManager::BeginSnapshot(BlockTable* table, absl::Span<const TokenId> tokens,
                                      int64_t boundary, std::string_view salt) {
  CHECK_GT(boundary, 0);
  CHECK_EQ(boundary % config_.snapshot_grid, 0);
  const int64_t last = boundary / config_.block_size - 1;
  if (boundary > static_cast<int64_t>(tokens.size())) return states_->TakeForSnapshot();
  ExtendHashes(table, tokens, last + 1, salt);
  const bool is_there = states_->Find(table->hashes[last], TokensOfBlock(tokens, last)) != kNoState;
  return is_there ? kNoState : states_->TakeForSnapshot();
}

void BlockManager::FinishSnapshot(const BlockTable& table, absl::Span<const TokenId> tokens,
                                  int64_t boundary, StateSlot slot) {
  const int64_t last = boundary / config_.block_size - 1;
  CHECK_LT(last, table.num_published);
  const BlockHash& hash = table.hashes[last];
  const absl::Span<const TokenId> last_tokens = TokensOfBlock(tokens, last);
  // Nobody would find a snapshot behind a block that a collision has kept from being cached.
  if (index_.Find(event_group_, hash, last_tokens) == kNoBlock) return states_->Drop(slot);
  states_->Finish(slot, hash, last_tokens);
}

void BlockManager::Release(BlockTable* table) {
  const int64_t num_blocks = table->empty() ? 0 : table->blocks[0].size();
  for (int64_t i = num_blocks - 1; i >= 0; --i) {
    for (size_t group = 0; group < table->blocks.size(); ++group) {
      if (i >= table->first_held[group]) DropReference(table->blocks[group][i]);
    }
  }
  table->blocks.clear();
  table->first_held.clear();
  table->num_published = 0;
  table->num_paged_tokens = 0;
  ReleaseBeginning(table);
  if (table->state != kNoState) states_->Release(std::exchange(table->state, kNoState));
}

BlockStats BlockManager::stats() const {
  return {.num_blocks = pool_.num_blocks(),
          .num_held = pool_.num_blocks() - pool_.num_free(),
          .num_cached_free = num_cached_free_,
          .prefix_queried_tokens = prefix_queried_tokens_,
          .prefix_hit_tokens = prefix_hit_tokens_,
          .num_evictions = num_evictions_,
          .num_recomputed_tokens = num_recomputed_tokens_,
          .states = states_.has_value() ? states_->stats() : StateStats()};
}

int64_t BlockManager::FlushPrefixCache() {
  int64_t num_flushed = 0;
  KvEventListener* const listener = listener_;
  const bool is_all = index_.size() == num_cached_free_;
  if (is_all) listener_ = nullptr;  // hears it in one
  pool_.ForEachFree([&](BlockId block) {
    if (!index_.Contains(block)) return;
    Forget(block);
    ++num_flushed;
  });
  listener_ = listener;
  if (is_all && num_flushed > 0 && listener_ != nullptr) listener_->OnCleared();
  CHECK_EQ(num_flushed, num_cached_free_);
  num_cached_free_ = 0;
  return num_flushed;
}

void BlockManager::CheckInvariants(absl::Span<const BlockTable* const> live_tables,
                                   absl::Span<const StateSlot> begun_snapshots) const {
  std::vector<int32_t> num_references(config_.num_blocks, 0);
  for (const BlockTable* table : live_tables) CheckTable(*table, &num_references);

  int64_t num_free = 0;
  for (BlockId block = 0; block < config_.num_blocks; ++block) {
    CHECK_EQ(pool_.num_references(block), num_references[block]) << "block " << block;
    if (num_references[block] == 0) ++num_free;
    if (num_references[block] > 1) CHECK(index_.Contains(block)) << "shared but not cached";
  }
  int64_t num_listed = 0;
  int64_t num_cached_free = 0;
  pool_.ForEachFree([&](BlockId block) {
    CHECK_EQ(num_references[block], 0) << "block " << block;
    ++num_listed;
    if (index_.Contains(block)) ++num_cached_free;
  });
  CHECK_EQ(num_listed, num_free);
  CHECK_EQ(pool_.num_free(), num_free);
  CHECK_EQ(num_cached_free_, num_cached_free);
  index_.CheckInvariants();
  if (states_.has_value()) CheckStates(live_tables, begun_snapshots);
}

void BlockManager::CheckStates(absl::Span<const BlockTable* const> live_tables,
                               absl::Span<const StateSlot> begun_snapshots) const {
  std::vector<StateSlot> live;
  std::vector<StateSlot> begun_from;
  for (const BlockTable* table : live_tables) {
    if (table->state != kNoState) live.push_back(table->state);
    if (table->begins_from != kNoState) begun_from.push_back(table->begins_from);
  }
  states_->CheckInvariants(live, begun_from, begun_snapshots);
  states_->ForEachSnapshot([this](const BlockHash& hash, absl::Span<const TokenId> tokens) {
    CHECK_NE(index_.Find(event_group_, hash, tokens), kNoBlock) << "a snapshot without its block";
  });
}

void BlockManager::CheckTable(const BlockTable& table, std::vector<int32_t>* num_references) const {
  if (table.empty()) {
    CHECK_EQ(table.num_published, 0);
    CHECK_EQ(table.state, kNoState);
    CHECK_EQ(table.begins_from, kNoState);
    return;
  }
  const bool is_attached = static_cast<int64_t>(table.blocks[0].size()) == table.num_published;
  if (states_.has_value() && !is_attached) CHECK_NE(table.state, kNoState);
  CHECK_EQ(table.blocks.size(), config_.groups.size());
  for (int group = 0; group < num_groups(); ++group) {
    const std::vector<BlockId>& blocks = table.blocks[group];
    CHECK_EQ(blocks.size(), table.blocks[0].size());
    CHECK_LE(table.num_published, static_cast<int64_t>(blocks.size()));
    for (int64_t i = 0; i < static_cast<int64_t>(blocks.size()); ++i) {
      if (i < table.first_held[group]) {
        CHECK_EQ(blocks[i], kNoBlock);
        continue;
      }
      CHECK(blocks[i] >= 0 && blocks[i] < config_.num_blocks) << "block " << blocks[i];
      ++(*num_references)[blocks[i]];
      if (i >= table.num_published) CHECK(!index_.Contains(blocks[i])) << "cached unpublished";
    }
  }
}

// The first block of `group` that a query at `position` sees.
int64_t BlockManager::FirstVisibleBlock(int group, int64_t position) const {
  const int64_t window = config_.groups[group].sliding_window;
  if (window == 0) return 0;
  return std::max<int64_t>(position - window + 1, 0) / config_.block_size;
}

// The longest prefix of at most `num_blocks` blocks after which `group` finds all it sees cached.
int64_t BlockManager::UsablePrefix(int group, absl::Span<const TokenId> tokens,
                                   const BlockTable& table, int64_t num_blocks) const {
  const auto is_cached = [&](int64_t i) {
    return index_.Find(group, table.hashes[i], TokensOfBlock(tokens, i)) != kNoBlock;
  };
  if (config_.groups[group].sliding_window == 0) {
    int64_t length = 0;
    while (length < num_blocks && is_cached(length)) ++length;
    return length;
  }
  // Backwards: a missing block rules out every prefix that ends after it and still sees it, and
  // all that end between it and the current candidate do.
  int64_t length = num_blocks;
  for (int64_t i = num_blocks - 1; i >= FirstVisibleBlock(group, length * config_.block_size);
       --i) {
    if (!is_cached(i)) length = i;
  }
  return length;
}

// The longest prefix of at most `num_blocks` blocks that every group can use: each shortens it to
// what it can use, until all agree on one length.
int64_t BlockManager::AgreedPrefix(absl::Span<const TokenId> tokens, const BlockTable& table,
                                   int64_t num_blocks) const {
  int num_agreeing = 0;
  for (int group = 0; num_agreeing < num_groups(); group = (group + 1) % num_groups()) {
    const int64_t usable = UsablePrefix(group, tokens, table, num_blocks);
    num_agreeing = usable == num_blocks ? num_agreeing + 1 : 1;
    num_blocks = usable;
  }
  return num_blocks;
}

// The longest prefix of at most `num_blocks` blocks after which there is a snapshot to begin from.
// Sets `is_refused` where of a longer one the blocks are there, and a snapshot that nobody may
// hold.
int64_t BlockManager::UsableStates(absl::Span<const TokenId> tokens, const BlockTable& table,
                                   int64_t num_blocks, bool* is_refused) const {
  const int64_t grid_blocks = config_.snapshot_grid / config_.block_size;
  for (int64_t i = num_blocks / grid_blocks * grid_blocks; i > 0; i -= grid_blocks) {
    const StateSlot slot = states_->Find(table.hashes[i - 1], TokensOfBlock(tokens, i - 1));
    if (slot == kNoState) continue;
    if (states_->CanHold(slot)) return i;
    if (AgreedPrefix(tokens, table, i) == i) *is_refused = true;
  }
  return 0;
}

void BlockManager::ExtendHashes(BlockTable* table, absl::Span<const TokenId> tokens,
                                int64_t num_blocks, std::string_view salt) {
  CHECK_LE(num_blocks * config_.block_size, static_cast<int64_t>(tokens.size()));
  std::vector<BlockHash>& hashes = table->hashes;
  if (hashes.empty()) table->root = hasher_.Root(salt);
  for (int64_t i = hashes.size(); i < num_blocks; ++i) {
    hashes.push_back(hasher_.Next(i == 0 ? table->root : hashes.back(), TokensOfBlock(tokens, i)));
  }
}

// The group whose blocks stand for all: one that keeps every block of a sequence, if there is one.
int BlockManager::EventGroup() const {
  for (int group = 0; group < num_groups(); ++group) {
    if (config_.groups[group].sliding_window == 0) return group;
  }
  return 0;
}

void BlockManager::ForEachCachedBlock(const std::function<void(const CachedBlock&)>& visit) const {
  for (const BlockId block : index_.Blocks(event_group_)) visit(index_.Describe(block));
}

void BlockManager::Forget(BlockId block) {
  if (listener_ != nullptr && index_.group(block) == event_group_) {
    listener_->OnRemoved(index_.Describe(block).hash);
  }
  if (states_.has_value() && index_.group(block) == event_group_) {
    states_->Forget(index_.hash(block), index_.Describe(block).tokens);
  }
  index_.Erase(block);
}

BlockId BlockManager::TakeBlock() {
  const BlockId block = pool_.Take();
  CHECK_NE(block, kNoBlock);
  if (index_.Contains(block)) {
    Forget(block);
    --num_cached_free_;
    ++num_evictions_;
  }
  return block;
}

void BlockManager::AddReference(BlockId block) {
  CHECK(index_.Contains(block));  // only cached blocks are ever shared
  if (pool_.num_references(block) == 0) --num_cached_free_;
  pool_.AddReference(block);
}

void BlockManager::DropReference(BlockId block) {
  const bool is_cached = index_.Contains(block);
  pool_.DropReference(block, is_cached);
  if (is_cached && pool_.num_references(block) == 0) ++num_cached_free_;
}

}  // namespace quire
