// BlockManager by itself against a plain model of what its README promises: which prefix is found,
// which blocks and which states are handed out and in which order they are reused, all of it
// exactly. Every operation of a random run must give the same blocks and states, the same answers
// and the same counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kvcache/block_manager.h"
#include "tests/sim/oracle.h"
#include "tests/sim/workload.h"

namespace quire::sim {
namespace {

struct ModelSequence {
  std::vector<TokenId> tokens;
  std::string salt;
  std::vector<uint64_t> prints;              // [tokens] of the prefixes that end there
  std::vector<std::vector<BlockId>> blocks;  // per group; kNoBlock where given back
  int64_t num_published = 0;
  int64_t num_computed = 0;
  int64_t num_submitted = 0;  // beyond num_computed while a step is in flight
  std::vector<std::pair<int64_t, StateSlot>>
      begun;  // snapshots of it: after how many tokens, where
  StateSlot state = kNoState;
  StateSlot begins_from = kNoState;
  BlockTable table;  // BlockManager's own
};

// The states: a snapshot is named by the print of the prefix that it stands behind; 0: none.
class StateModel {
 public:
  StateModel(int64_t num_slots, int64_t num_reserved)
      : num_reserved_(num_reserved), prints_(num_slots, 0), num_references_(num_slots, 0) {
    for (StateSlot slot = 0; slot < num_slots; ++slot) free_.push_back(slot);
    stats.num_slots = num_slots;
  }

  StateSlot Find(uint64_t print) const {
    const auto it = std::find(prints_.begin(), prints_.end(), print);
    return it == prints_.end() ? kNoState : static_cast<StateSlot>(it - prints_.begin());
  }
  bool CanHold(StateSlot slot) const { return num_references_[slot] > 0 || HasSpare(); }

  void Hold(StateSlot slot) {
    if (num_references_[slot]++ == 0) free_.remove(slot);
    ++stats.num_hits;
  }

  StateSlot TakeForSequence() {
    ++stats.num_live;
    return Take();
  }

  void ReleaseOfSequence(StateSlot slot) {
    --stats.num_live;
    Drop(slot);
  }

  // kNoState: refused.
  StateSlot TakeForSnapshot() {
    if (HasSpare()) return Take();
    ++stats.num_refused;
    return kNoState;
  }

  void Finish(StateSlot slot, uint64_t print) {
    if (Find(print) == kNoState) {
      prints_[slot] = print;
      ++stats.num_made;
    }
    Drop(slot);
  }

  // Snapshots are reused last, the latest given back at the very end; others next.
  void Drop(StateSlot slot) {
    if (--num_references_[slot] > 0) return;
    free_.insert(prints_[slot] != 0 ? free_.end() : free_.begin(), slot);
  }

  void Forget(uint64_t print) {
    const StateSlot slot = Find(print);
    if (slot == kNoState) return;
    prints_[slot] = 0;
    if (num_references_[slot] > 0) return;
    free_.remove(slot);
    free_.push_front(slot);
  }

  void CheckStats(const StateStats& actual) const {
    const auto num_free =
        std::count_if(free_.begin(), free_.end(), [this](StateSlot s) { return prints_[s] == 0; });
    EXPECT_EQ(actual.num_slots, stats.num_slots);
    EXPECT_EQ(actual.num_live, stats.num_live);
    EXPECT_EQ(actual.num_free, num_free);
    EXPECT_EQ(actual.num_snapshots, stats.num_slots - stats.num_live - num_free);
    EXPECT_EQ(actual.num_made, stats.num_made);
    EXPECT_EQ(actual.num_evicted, stats.num_evicted);
    EXPECT_EQ(actual.num_hits, stats.num_hits);
    EXPECT_EQ(actual.num_refused, stats.num_refused);
  }

  StateStats stats;  // the counters and num_live only

 private:
  // Whether one slot may be taken of those that are not reserved.
  bool HasSpare() const {
    const auto num_free = static_cast<int64_t>(free_.size());
    return stats.num_slots - num_free - stats.num_live < stats.num_slots - num_reserved_;
  }

  StateSlot Take() {
    const StateSlot slot = free_.front();
    free_.pop_front();
    stats.num_evicted += std::exchange(prints_[slot], 0) != 0 ? 1 : 0;
    num_references_[slot] = 1;
    return slot;
  }

  const int64_t num_reserved_;
  std::list<StateSlot> free_;     // next to be reused first
  std::vector<uint64_t> prints_;  // [num_slots] of finished snapshots
  std::vector<int> num_references_;
};

class BlockModel {
 public:
  explicit BlockModel(const BlockManagerConfig& config)
      : states(config.num_state_slots, config.num_reserved_states),
        config_(config),
        contents_(config.num_blocks),
        num_references_(config.num_blocks, 0) {
    for (BlockId block = 0; block < config.num_blocks; ++block) free_.push_back(block);
  }

  // The longest prefix whose visible blocks can all be found, and after it a snapshot, in tokens.
  int64_t Attach(ModelSequence* sequence) {
    int64_t num_blocks = (sequence->tokens.size() - 1) / config_.block_size;
    while (!IsCached(*sequence, num_blocks)) --num_blocks;
    const int64_t num_paged = num_blocks;
    bool is_refused = false;
    for (; HasStates() && num_blocks > 0; --num_blocks) {
      const StateSlot slot = SnapshotAfter(*sequence, num_blocks);
      if (slot == kNoState || !IsCached(*sequence, num_blocks)) continue;
      if (states.CanHold(slot)) {
        states.Hold(sequence->begins_from = slot);
        break;
      }
      is_refused = true;
    }
    states.stats.num_refused += is_refused ? 1 : 0;
    stats.num_recomputed_tokens += (num_paged - num_blocks) * config_.block_size;
    sequence->blocks.assign(config_.groups.size(), {});
    for (size_t group = 0; group < config_.groups.size(); ++group) {
      sequence->blocks[group].assign(num_blocks, kNoBlock);
      for (int64_t i = FirstSeen(group, num_blocks * config_.block_size); i < num_blocks; ++i) {
        const BlockId block = index_.at(ContentOf(*sequence, group, i));
        if (num_references_[block]++ == 0) free_.remove(block);
        sequence->blocks[group][i] = block;
      }
    }
    sequence->num_published = num_blocks;
    stats.prefix_queried_tokens += sequence->tokens.size();
    stats.prefix_hit_tokens += num_blocks * config_.block_size;
    return num_blocks * config_.block_size;
  }

  bool Grow(ModelSequence* sequence, int64_t num_tokens) {
    const int64_t target = (num_tokens + config_.block_size - 1) / config_.block_size;
    const int64_t num_new = target - static_cast<int64_t>(sequence->blocks[0].size());
    const auto num_groups = static_cast<int64_t>(config_.groups.size());
    if (num_new * num_groups > static_cast<int64_t>(free_.size())) return false;
    for (auto& blocks : sequence->blocks) {
      while (static_cast<int64_t>(blocks.size()) < target) blocks.push_back(Take());
    }
    const bool has_none = sequence->state == kNoState && num_new > 0;
    if (HasStates() && has_none) sequence->state = states.TakeForSequence();
    return true;
  }

  // kNoState: it is there, or refused.
  StateSlot BeginSnapshot(const ModelSequence& sequence, int64_t boundary) {
    const int64_t num_blocks = boundary / config_.block_size;
    if (SnapshotAfter(sequence, num_blocks) != kNoState) return kNoState;
    return states.TakeForSnapshot();
  }

  void FinishSnapshot(const ModelSequence& sequence, int64_t boundary, StateSlot slot) {
    states.Finish(slot, sequence.prints[boundary - 1]);
  }

  void ReleaseBeginning(ModelSequence* sequence) {
    const StateSlot slot = std::exchange(sequence->begins_from, kNoState);
    if (slot != kNoState) states.Drop(slot);
  }

  void Publish(ModelSequence* sequence) {
    const int64_t num_full = sequence->num_computed / config_.block_size;
    for (size_t group = 0; group < config_.groups.size(); ++group) {
      for (int64_t i = sequence->num_published; i < num_full; ++i) {
        const BlockId block = sequence->blocks[group][i];
        const Content content = ContentOf(*sequence, group, i);
        if (block == kNoBlock || !index_.emplace(content, block).second) continue;
        contents_[block] = content;
      }
    }
    sequence->num_published = std::max(sequence->num_published, num_full);
  }

  void LeaveWindow(ModelSequence* sequence) {
    for (size_t group = 0; group < config_.groups.size(); ++group) {
      auto& blocks = sequence->blocks[group];
      const int64_t first = FirstSeen(group, sequence->num_computed);
      for (int64_t i = 0; i < std::min<int64_t>(first, blocks.size()); ++i) Drop(&blocks[i]);
    }
  }

  void Release(ModelSequence* sequence) {
    for (int64_t i = sequence->blocks[0].size() - 1; i >= 0; --i) {
      for (auto& blocks : sequence->blocks) Drop(&blocks[i]);
    }
    sequence->blocks.clear();
    ReleaseBeginning(sequence);
    if (sequence->state != kNoState) states.ReleaseOfSequence(sequence->state);
  }

  int64_t Flush() {
    int64_t count = 0;
    for (const BlockId block : free_) count += Forget(block) ? 1 : 0;
    return count;
  }

  void CheckStats(const BlockStats& actual) const {
    const auto num_cached_free = std::count_if(
        free_.begin(), free_.end(), [this](BlockId b) { return contents_[b] != Content(); });
    EXPECT_EQ(actual.num_held, config_.num_blocks - static_cast<int64_t>(free_.size()));
    EXPECT_EQ(actual.num_cached_free, num_cached_free);
    EXPECT_EQ(actual.prefix_queried_tokens, stats.prefix_queried_tokens);
    EXPECT_EQ(actual.prefix_hit_tokens, stats.prefix_hit_tokens);
    EXPECT_EQ(actual.num_evictions, stats.num_evictions);
    EXPECT_EQ(actual.num_recomputed_tokens, stats.num_recomputed_tokens);
    states.CheckStats(actual.states);
  }

  bool HasStates() const { return config_.num_state_slots > 0; }

  BlockStats stats;  // the counters only
  StateModel states;

 private:
  using Content =
      std::pair<size_t, uint64_t>;  // group + 1 and the print of all up to the block's end

  StateSlot SnapshotAfter(const ModelSequence& sequence, int64_t num_blocks) const {
    return states.Find(sequence.prints[num_blocks * config_.block_size - 1]);
  }

  Content ContentOf(const ModelSequence& sequence, size_t group, int64_t index) const {
    return {group + 1, sequence.prints[(index + 1) * config_.block_size - 1]};
  }

  int64_t FirstSeen(size_t group, int64_t position) const {
    const int64_t window = config_.groups[group].sliding_window;
    if (window == 0) return 0;
    return std::max<int64_t>(position + 1 - window, 0) / config_.block_size;
  }

  bool IsCached(const ModelSequence& sequence, int64_t num_blocks) const {
    for (size_t group = 0; group < config_.groups.size(); ++group) {
      for (int64_t i = FirstSeen(group, num_blocks * config_.block_size); i < num_blocks; ++i) {
        if (!index_.contains(ContentOf(sequence, group, i))) return false;
      }
    }
    return true;
  }

  BlockId Take() {
    const BlockId block = free_.front();
    free_.pop_front();
    stats.num_evictions += Forget(block) ? 1 : 0;
    num_references_[block] = 1;
    return block;
  }

  bool Forget(BlockId block) {
    if (contents_[block] == Content()) return false;
    index_.erase(contents_[block]);
    if (contents_[block].first == EventGroup() + 1) states.Forget(contents_[block].second);
    contents_[block] = {};
    return true;
  }

  // The group whose blocks stand for all: the first that keeps every block.
  size_t EventGroup() const {
    for (size_t group = 0; group < config_.groups.size(); ++group) {
      if (config_.groups[group].sliding_window == 0) return group;
    }
    return 0;
  }

  // Cached blocks are reused last, the latest given back at the very end; others next.
  void Drop(BlockId* entry) {
    const BlockId block = std::exchange(*entry, kNoBlock);
    if (block == kNoBlock || --num_references_[block] > 0) return;
    free_.insert(contents_[block] != Content() ? free_.end() : free_.begin(), block);
  }

  const BlockManagerConfig config_;
  std::list<BlockId> free_;  // next to be reused first
  std::map<Content, BlockId> index_;
  std::vector<Content> contents_;  // [num_blocks] or Content()
  std::vector<int> num_references_;
};

class BlockModelTest : public testing::TestWithParam<int> {
 protected:
  explicit BlockModelTest()
      : random_(GetParam()), config_(RandomConfig()), model_(config_), manager_(config_) {}

  BlockManagerConfig RandomConfig() {
    BlockManagerConfig config;
    config.block_size = 1 << random_.Between(0, 3);
    config.num_blocks = random_.Between(8, 60);
    config.groups.clear();
    for (int64_t i = random_.Between(1, 3); i > 0; --i) {
      config.groups.push_back({random_.OneIn(2) ? 0 : random_.Between(1, 20)});
    }
    if (random_.OneIn(2)) return config;
    config.num_reserved_states = random_.Between(1, 6);
    config.num_state_slots = config.num_reserved_states + random_.Between(0, 8);
    config.snapshot_grid = config.block_size << random_.Between(0, 2);
    return config;
  }

  void Begin() {
    ModelSequence& sequence = sequences_.emplace_back();
    sequence.salt = random_.OneIn(4) ? "tenant" : "";
    Random words(random_.Between(1, 6));  // one of a few documents
    for (int64_t i = random_.Between(1, 60); i > 0; --i) {
      sequence.tokens.push_back(static_cast<TokenId>(words.Between(0, kVocabSize - 1)));
    }
    uint64_t print = RootPrint(sequence.salt);
    for (const TokenId token : sequence.tokens) {
      sequence.prints.push_back(print = NextPrint(print, token));
    }
    const StateStats states = manager_.stats().states;
    const PrefixMatch match = manager_.FindPrefix(sequence.tokens, sequence.salt, &sequence.table);
    const int64_t held = manager_.stats().num_held;
    sequence.num_computed = sequence.num_submitted = model_.Attach(&sequence);
    EXPECT_EQ(match.num_tokens, sequence.num_computed);
    EXPECT_EQ(manager_.AttachPrefix(sequence.tokens, sequence.salt, &sequence.table),
              sequence.num_computed);
    EXPECT_EQ(manager_.stats().states.num_refused - states.num_refused, match.is_refused ? 1 : 0);
    EXPECT_EQ(match.num_blocks, sequence.table.num_held());
    EXPECT_EQ(match.num_free_blocks, manager_.stats().num_held - held);
  }

  // A step begins, or the one that has begun computes its tokens.
  void Advance(ModelSequence* sequence) {
    if (sequence->num_submitted > sequence->num_computed) return Complete(sequence);
    const auto num_tokens = static_cast<int64_t>(sequence->tokens.size());
    const int64_t target = random_.Between(sequence->num_computed, num_tokens);
    const bool grown = model_.Grow(sequence, target);
    ASSERT_EQ(manager_.TryGrow(&sequence->table, target), grown);
    if (!grown) return;
    sequence->num_submitted = target;
    for (int64_t i = sequence->num_computed + 1; model_.HasStates() && i <= target; ++i) {
      if (i % config_.snapshot_grid != 0 || random_.OneIn(3)) continue;
      const StateSlot slot = model_.BeginSnapshot(*sequence, i);
      EXPECT_EQ(manager_.BeginSnapshot(&sequence->table, sequence->tokens, i, sequence->salt),
                slot);
      if (slot != kNoState) sequence->begun.emplace_back(i, slot);
    }
  }

  void Complete(ModelSequence* sequence) {
    const int64_t end = sequence->num_computed = sequence->num_submitted;
    model_.Publish(sequence);
    manager_.Publish(&sequence->table, sequence->tokens, end, sequence->salt);
    model_.ReleaseBeginning(sequence);
    manager_.ReleaseBeginning(&sequence->table);
    for (const auto& [boundary, slot] : std::exchange(sequence->begun, {})) {
      model_.FinishSnapshot(*sequence, boundary, slot);
      manager_.FinishSnapshot(sequence->table, sequence->tokens, boundary, slot);
    }
    model_.LeaveWindow(sequence);
    manager_.ReleaseOutsideWindow(&sequence->table, end);
  }

  void End(size_t index) {
    for (const auto& [boundary, slot] : sequences_[index].begun) {
      model_.states.Drop(slot);
      manager_.DropSnapshot(slot);
    }
    model_.Release(&sequences_[index]);
    manager_.Release(&sequences_[index].table);
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  bool MayBegin() const {
    const auto num_running = static_cast<int64_t>(sequences_.size());
    return !model_.HasStates() || num_running < config_.num_reserved_states;
  }

  void Check() {
    std::vector<const BlockTable*> tables;
    std::vector<StateSlot> begun;
    for (const ModelSequence& sequence : sequences_) {
      tables.push_back(&sequence.table);
      EXPECT_EQ(sequence.table.blocks, sequence.blocks);
      EXPECT_EQ(sequence.table.state, sequence.state);
      EXPECT_EQ(sequence.table.begins_from, sequence.begins_from);
      for (const auto& [boundary, slot] : sequence.begun) begun.push_back(slot);
    }
    model_.CheckStats(manager_.stats());
    manager_.CheckInvariants(tables, begun);
  }

  Random random_;
  const BlockManagerConfig config_;
  BlockModel model_;
  BlockManager manager_;
  std::vector<ModelSequence> sequences_;
};

TEST_P(BlockModelTest, SameBlocksSameAnswersSameCounts) {
  for (int i = 0; i < 2'000 && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    if (random_.OneIn(100)) {
      EXPECT_EQ(manager_.FlushPrefixCache(), model_.Flush());
    } else if (sequences_.empty() || (random_.OneIn(4) && MayBegin())) {
      Begin();
    } else {
      const size_t index = random_.Between(0, static_cast<int64_t>(sequences_.size()) - 1);
      if (random_.OneIn(3)) {
        End(index);
      } else {
        Advance(&sequences_[index]);
      }
    }
    Check();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, BlockModelTest, testing::Range(1, 101));

}  // namespace
}  // namespace quire::sim
