#include "kvcache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

using testing::ElementsAre;

std::vector<BlockId> FreeBlocks(const BlockPool& pool) {
  std::vector<BlockId> blocks;
  pool.ForEachFree([&](BlockId block) { blocks.push_back(block); });
  return blocks;
}

TEST(BlockPoolTest, AllBlocksAreFreeAtFirst) {
  BlockPool pool(3);
  EXPECT_EQ(pool.num_blocks(), 3);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_THAT(FreeBlocks(pool), ElementsAre(0, 1, 2));
}

TEST(BlockPoolTest, TakeGivesEachBlockOnceAndThenNone) {
  BlockPool pool(2);
  EXPECT_EQ(pool.Take(), 0);
  EXPECT_EQ(pool.Take(), 1);
  EXPECT_EQ(pool.Take(), kNoBlock);
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(BlockPoolTest, BlockIsFreeWhenItsLastReferenceGoes) {
  BlockPool pool(1);
  const BlockId block = pool.Take();
  pool.AddReference(block);
  EXPECT_EQ(pool.num_references(block), 2);
  pool.DropReference(block, false);
  EXPECT_EQ(pool.num_free(), 0);
  pool.DropReference(block, false);
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(BlockPoolTest, WorthlessBlocksAreReusedFirstAndWorthyOnesInOrderOfRelease) {
  BlockPool pool(4);
  for (int i = 0; i < 4; ++i) pool.Take();
  pool.DropReference(2, true);
  pool.DropReference(0, true);
  pool.DropReference(3, false);
  pool.DropReference(1, true);
  EXPECT_THAT(FreeBlocks(pool), ElementsAre(3, 2, 0, 1));
}

TEST(BlockPoolTest, ReferencingAFreeBlockTakesItOutOfTheMiddleOfTheList) {
  BlockPool pool(3);
  pool.AddReference(1);
  EXPECT_THAT(FreeBlocks(pool), ElementsAre(0, 2));
  EXPECT_EQ(pool.num_free(), 2);
  pool.DropReference(1, true);
  EXPECT_THAT(FreeBlocks(pool), ElementsAre(0, 2, 1));
}

TEST(BlockPoolDeathTest, DroppingAReferenceThatNobodyHoldsAborts) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.DropReference(0, false), "num_references");
}

TEST(BlockPoolDeathTest, BlocksOutOfRangeAbort) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.AddReference(1), "block 1");
  EXPECT_DEATH(pool.AddReference(kNoBlock), "block -1");
}

}  // namespace
}  // namespace quire
