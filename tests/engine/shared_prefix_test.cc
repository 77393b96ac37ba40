#include "engine/runner/shared_prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

namespace quire {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kBlockSize = 32;  // a prefix grows by four blocks

class SharedPrefixTest : public ::testing::Test {
 protected:
  // A decode of the token behind `start` others, whose table begins with `prefix`.
  void Add(int64_t start, std::vector<BlockId> prefix) {
    std::vector<BlockId>& table = tables_.emplace_back(std::move(prefix));
    while (static_cast<int64_t>(table.size()) * kBlockSize <= start) table.push_back(next_++);
    ScheduledSequence sequence = {};
    sequence.start = start;
    sequence.num_new = 1;
    decodes_.push_back(sequence);
  }
  const PrefixOrder& Find(int64_t min_saved_tokens = 1) {
    for (size_t i = 0; i < decodes_.size(); ++i) decodes_[i].block_tables = {tables_[i]};
    finder_.emplace(kBlockSize, min_saved_tokens);
    finder_->Find(decodes_);
    return finder_->Find(decodes_);  // what one call counted does not count in the next
  }
  static std::vector<std::pair<int32_t, int32_t>> Groups(const PrefixOrder& order) {
    std::vector<std::pair<int32_t, int32_t>> groups;
    groups.reserve(order.groups.size());
    for (const PrefixGroup& group : order.groups) {
      groups.emplace_back(group.num_seqs, group.num_blocks);
    }
    return groups;
  }
  static std::vector<BlockId> Blocks(BlockId first, int count) {
    std::vector<BlockId> blocks(count);
    std::iota(blocks.begin(), blocks.end(), first);
    return blocks;
  }

  std::vector<std::vector<BlockId>> tables_;
  std::vector<ScheduledSequence> decodes_;
  std::optional<SharedPrefixFinder> finder_;
  BlockId next_ = 1000;
};

TEST_F(SharedPrefixTest, SequencesOfOnePrefixFollowEachOther) {
  for (const BlockId first : {0, 100, 0, 500, 100, 100, 0, 100, 0}) {
    Add(300, Blocks(first, first == 500 ? 2 : 8));
  }
  const PrefixOrder& order = Find();
  EXPECT_THAT(Groups(order), ElementsAre(std::pair(4, 8), std::pair(4, 8)));
  EXPECT_THAT(order.sequences, ElementsAre(0, 2, 6, 8, 1, 4, 5, 7, 3));
}

TEST_F(SharedPrefixTest, AlonePrefixesAndFewSharersMakeNoGroup) {
  for (int i = 0; i < SharedPrefixFinder::kMinSequences - 1; ++i) Add(300, Blocks(0, 8));
  for (int i = 0; i < 8; ++i) Add(300, {});
  const PrefixOrder& order = Find();
  EXPECT_TRUE(order.groups.empty());
  EXPECT_TRUE(order.sequences.empty());
}

// Each sequence decodes at least the token that is its own: blocks that it may still write into are
// never part of a prefix.
TEST_F(SharedPrefixTest, APrefixEndsBeforeTheTokenThatIsDecoded) {
  for (const int64_t start : {256, 300, 270, 290}) Add(start, Blocks(0, 9));
  EXPECT_THAT(Groups(Find()), ElementsAre(std::pair(4, 8)));
  Add(255, Blocks(0, 8));
  const PrefixOrder& order = Find();
  EXPECT_THAT(Groups(order), ElementsAre(std::pair(4, 8)));
  EXPECT_THAT(order.sequences, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(SharedPrefixTest, TheLongestPrefixThatEnoughHaveCounts) {
  for (int i = 0; i < 6; ++i) {  // of which two have more in common
    std::vector<BlockId> blocks = Blocks(0, 8);
    if (i < 2) blocks.insert(blocks.end(), {900, 901, 902, 903});
    Add(400, blocks);
  }
  EXPECT_THAT(Groups(Find()), ElementsAre(std::pair(6, 8)));
  for (int i = 0; i < 4; ++i) {
    std::vector<BlockId> blocks = Blocks(0, 8);
    blocks.insert(blocks.end(), {910, 911, 912, 913});
    Add(400, blocks);
  }
  const PrefixOrder& order = Find();
  EXPECT_THAT(Groups(order), ElementsAre(std::pair(6, 8), std::pair(4, 12)));
  EXPECT_THAT(order.sequences, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(SharedPrefixTest, TooLittleThatIsSavedMakesNoGroups) {
  for (int i = 0; i < 5; ++i) Add(300, Blocks(0, 8));
  EXPECT_TRUE(Find(4 * 8 * kBlockSize + 1).groups.empty());
  EXPECT_THAT(Groups(Find(4 * 8 * kBlockSize)), ElementsAre(std::pair(5, 8)));
}

TEST_F(SharedPrefixTest, OfTooManyGroupsThoseThatSaveMost) {
  for (int g = 0; g <= SharedPrefixFinder::kMaxGroups; ++g) {
    for (int i = 0; i < (g == 0 ? 4 : 5); ++i) Add(300, Blocks(20 * g, 8));
  }
  const PrefixOrder& order = Find();
  EXPECT_EQ(order.groups.size(), size_t{SharedPrefixFinder::kMaxGroups});
  EXPECT_EQ(order.sequences.size(), decodes_.size());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(order.sequences[order.sequences.size() - 4 + i], i);
}

}  // namespace
}  // namespace quire
