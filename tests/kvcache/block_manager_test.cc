// Blocks without the prefix cache: growing, releasing, windows, bounds. (The cache itself:
// prefix_caching_test.cc.)
#include "kvcache/block_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::SizeIs;

constexpr int32_t kBlockSize = 4;

BlockManagerConfig Config(int64_t num_blocks, std::vector<KvSpec> groups = {{}}) {
  BlockManagerConfig config;
  config.num_blocks = num_blocks;
  config.block_size = kBlockSize;
  config.groups = std::move(groups);
  return config;
}

TEST(BlockManagerTest, GrowsByWholeBlocks) {
  BlockManager blocks(Config(8));
  BlockTable table;
  EXPECT_TRUE(blocks.TryGrow(&table, 1));
  EXPECT_THAT(table.blocks[0], SizeIs(1));
  EXPECT_TRUE(blocks.TryGrow(&table, 4));
  EXPECT_THAT(table.blocks[0], SizeIs(1));
  EXPECT_TRUE(blocks.TryGrow(&table, 5));
  EXPECT_THAT(table.blocks[0], SizeIs(2));
  EXPECT_EQ(blocks.num_free_blocks(), 6);
  EXPECT_EQ(table.num_held(), 2);
  blocks.CheckInvariants({&table});
}

TEST(BlockManagerTest, GrowingNeverShrinks) {
  BlockManager blocks(Config(8));
  BlockTable table;
  blocks.TryGrow(&table, 12);
  EXPECT_EQ(blocks.NumBlocksToGrow(table, 4), 0);
  EXPECT_TRUE(blocks.TryGrow(&table, 4));
  EXPECT_THAT(table.blocks[0], SizeIs(3));
}

TEST(BlockManagerTest, GrowingIsAllOrNothing) {
  BlockManager blocks(Config(3, {{}, {.sliding_window = 4}}));
  BlockTable table;
  EXPECT_TRUE(blocks.TryGrow(&table, 4));
  EXPECT_EQ(blocks.NumBlocksToGrow(table, 8), 2);
  EXPECT_FALSE(blocks.TryGrow(&table, 8));
  EXPECT_THAT(table.blocks, ElementsAre(SizeIs(1), SizeIs(1)));
  EXPECT_EQ(blocks.num_free_blocks(), 1);
  blocks.CheckInvariants({&table});
}

TEST(BlockManagerTest, ShrinkingGivesTheLastBlocksBack) {
  BlockManager blocks(Config(8, {{}, {.sliding_window = 8}}));
  BlockTable table;
  ASSERT_TRUE(blocks.TryGrow(&table, 16));
  const std::vector<BlockId> first = table.blocks[0];
  blocks.Shrink(&table, 9);  // the third block still has a token
  EXPECT_THAT(table.blocks, ElementsAre(SizeIs(3), SizeIs(3)));
  EXPECT_EQ(blocks.num_free_blocks(), 2);
  blocks.Shrink(&table, 12);  // never grows
  EXPECT_THAT(table.blocks, ElementsAre(SizeIs(3), SizeIs(3)));
  blocks.Shrink(&table, 8);
  EXPECT_THAT(table.blocks[0], ElementsAre(first[0], first[1]));
  EXPECT_EQ(blocks.num_free_blocks(), 4);
  blocks.CheckInvariants({&table});
  EXPECT_TRUE(blocks.TryGrow(&table, 16));
  blocks.CheckInvariants({&table});
  blocks.Release(&table);
  EXPECT_EQ(blocks.num_free_blocks(), 8);
}

TEST(BlockManagerDeathTest, WhatIsPublishedOrBehindTheWindowIsNotRejected) {
  BlockManager blocks(Config(8, {{}, {.sliding_window = 4}}));
  const std::vector<TokenId> tokens(16, 1);
  BlockTable table;
  ASSERT_TRUE(blocks.TryGrow(&table, 16));
  blocks.Publish(&table, tokens, 8, "");
  blocks.Shrink(&table, 8);
  EXPECT_DEATH(blocks.Shrink(&table, 7), "num_published");
  ASSERT_TRUE(blocks.TryGrow(&table, 16));
  blocks.ReleaseOutsideWindow(&table, 16);
  EXPECT_DEATH(blocks.Shrink(&table, 8), "behind the window");
}

TEST(BlockManagerTest, GroupsNeverShareABlock) {
  BlockManager blocks(Config(4, {{}, {}}));
  BlockTable table;
  ASSERT_TRUE(blocks.TryGrow(&table, 8));
  std::vector<BlockId> all = table.blocks[0];
  all.insert(all.end(), table.blocks[1].begin(), table.blocks[1].end());
  EXPECT_THAT(all, testing::UnorderedElementsAre(0, 1, 2, 3));
}

TEST(BlockManagerTest, ReleaseGivesEverythingBack) {
  BlockManager blocks(Config(4, {{}, {.sliding_window = 4}}));
  BlockTable table;
  blocks.TryGrow(&table, 8);
  blocks.Release(&table);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(blocks.num_free_blocks(), 4);
  blocks.Release(&table);  // nothing to do
  blocks.CheckInvariants({});
}

TEST(BlockManagerTest, BlocksBehindTheWindowComeBack) {
  BlockManager blocks(Config(8, {{}, {.sliding_window = 4}}));
  BlockTable table;
  ASSERT_TRUE(blocks.TryGrow(&table, 16));
  // The query at 11 sees [8, 12): blocks 0 and 1 are behind it.
  blocks.ReleaseOutsideWindow(&table, 11);
  EXPECT_EQ(table.first_held[1], 2);
  EXPECT_THAT(table.blocks[1][0], kNoBlock);
  EXPECT_THAT(table.blocks[1][1], kNoBlock);
  EXPECT_EQ(table.first_held[0], 0);
  EXPECT_EQ(blocks.num_free_blocks(), 2);
  EXPECT_EQ(table.num_held(), 6);
  blocks.CheckInvariants({&table});
  blocks.Release(&table);
  EXPECT_EQ(blocks.num_free_blocks(), 8);
}

TEST(BlockManagerTest, BlocksThatTheNextQuerySeesStay) {
  BlockManager blocks(Config(8, {{.sliding_window = 4}}));
  BlockTable table;
  ASSERT_TRUE(blocks.TryGrow(&table, 16));
  blocks.ReleaseOutsideWindow(&table, 10);  // sees [7, 11): block 1 is still needed
  EXPECT_EQ(table.first_held[0], 1);
  blocks.ReleaseOutsideWindow(&table, 3);  // going back changes nothing
  EXPECT_EQ(table.first_held[0], 1);
}

TEST(BlockManagerTest, MaxBlocksIsReachedAndNeverPassed) {
  constexpr int64_t kWindow = 6;
  for (const int64_t step : {1, 3, 4, 7}) {
    for (const int64_t num_tokens : {1, 5, 16, 61}) {
      BlockManager blocks(Config(100, {{}, {.sliding_window = kWindow}}));
      const int64_t max_blocks = blocks.MaxBlocksFor(num_tokens, step);
      BlockTable table;
      int64_t most_held = 0;
      for (int64_t done = 0; done < num_tokens; done += step) {
        ASSERT_TRUE(blocks.TryGrow(&table, std::min(done + step, num_tokens)));
        most_held = std::max(most_held, table.num_held());
        blocks.ReleaseOutsideWindow(&table, done + step);
      }
      EXPECT_LE(most_held, max_blocks) << num_tokens << " by " << step;
      EXPECT_GE(most_held, max_blocks - 1) << num_tokens << " by " << step;
    }
  }
}

TEST(BlockManagerTest, StatsCountHeldBlocks) {
  BlockManager blocks(Config(5));
  BlockTable table;
  blocks.TryGrow(&table, 9);
  EXPECT_EQ(blocks.stats().num_blocks, 5);
  EXPECT_EQ(blocks.stats().num_held, 3);
}

TEST(BlockManagerDeathTest, InvariantsSeeALeakAndAForeignTable) {
  BlockManager blocks(Config(4));
  BlockTable table;
  blocks.TryGrow(&table, 8);
  EXPECT_DEATH(blocks.CheckInvariants({}), "block 0");
  EXPECT_DEATH(blocks.CheckInvariants({&table, &table}), "block 0");
}

}  // namespace
}  // namespace quire
