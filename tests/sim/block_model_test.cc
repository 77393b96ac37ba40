// BlockManager alone against a plain model of what its README promises: which prefix is found,
// which blocks are handed out and in which order they are reused, all of it exactly. Every
// operation of a random run must give the same blocks, the same answers and the same counts.
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
  BlockTable table;  // BlockManager's own
};

class BlockModel {
 public:
  explicit BlockModel(const BlockManagerConfig& config)
      : config_(config), contents_(config.num_blocks), num_references_(config.num_blocks, 0) {
    for (BlockId block = 0; block < config.num_blocks; ++block) free_.push_back(block);
  }

  // The longest prefix whose visible blocks can all be found, in tokens.
  int64_t Attach(ModelSequence* sequence) {
    int64_t num_blocks = (sequence->tokens.size() - 1) / config_.block_size;
    while (!IsCached(*sequence, num_blocks)) --num_blocks;
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
    return true;
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
  }

  BlockStats stats;  // the counters only

 private:
  using Content =
      std::pair<size_t, uint64_t>;  // group + 1 and the print of all up to the block's end

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
    contents_[block] = {};
    return true;
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
    const PrefixMatch match = manager_.FindPrefix(sequence.tokens, sequence.salt, &sequence.table);
    const int64_t held = manager_.stats().num_held;
    sequence.num_computed = model_.Attach(&sequence);
    EXPECT_EQ(match.num_tokens, sequence.num_computed);
    EXPECT_EQ(manager_.AttachPrefix(sequence.tokens, sequence.salt, &sequence.table),
              sequence.num_computed);
    EXPECT_EQ(match.num_blocks, sequence.table.num_held());
    EXPECT_EQ(match.num_free_blocks, manager_.stats().num_held - held);
  }

  // Computes some more tokens, as a step would.
  void Advance(ModelSequence* sequence) {
    const auto num_tokens = static_cast<int64_t>(sequence->tokens.size());
    const int64_t target = random_.Between(sequence->num_computed, num_tokens);
    const bool grown = model_.Grow(sequence, target);
    ASSERT_EQ(manager_.TryGrow(&sequence->table, target), grown);
    if (!grown) return;
    sequence->num_computed = target;
    model_.Publish(sequence);
    manager_.Publish(&sequence->table, sequence->tokens, target, sequence->salt);
    model_.LeaveWindow(sequence);
    manager_.ReleaseOutsideWindow(&sequence->table, target);
  }

  void End(size_t index) {
    model_.Release(&sequences_[index]);
    manager_.Release(&sequences_[index].table);
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void Check() {
    std::vector<const BlockTable*> tables;
    for (const ModelSequence& sequence : sequences_) {
      tables.push_back(&sequence.table);
      EXPECT_EQ(sequence.table.blocks, sequence.blocks);
    }
    model_.CheckStats(manager_.stats());
    manager_.CheckInvariants(tables);
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
    } else if (sequences_.empty() || random_.OneIn(4)) {
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
