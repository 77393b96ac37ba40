#include "kvcache/prefix_index.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

constexpr int kAllBits = 64;
const std::vector<TokenId> kTokens = {1, 2};
const std::vector<TokenId> kOtherTokens = {1, 3};

BlockHash HashOf(uint8_t first_byte, uint8_t last_byte = 0) {
  BlockHash hash;
  hash.bytes.front() = first_byte;
  hash.bytes.back() = last_byte;
  return hash;
}

TEST(PrefixIndexTest, FindsWhatWasInserted) {
  PrefixIndex index(/*num_blocks=*/4, /*block_size=*/2, /*num_groups=*/1, kAllBits);
  EXPECT_EQ(index.Find(0, HashOf(1), kTokens), kNoBlock);
  EXPECT_TRUE(index.Insert(0, HashOf(1), kTokens, 3));
  EXPECT_EQ(index.Find(0, HashOf(1), kTokens), 3);
  EXPECT_TRUE(index.Contains(3));
  EXPECT_FALSE(index.Contains(2));
  EXPECT_EQ(index.size(), 1);
  index.CheckInvariants();
}

TEST(PrefixIndexTest, EqualHashWithOtherTokensIsAMiss) {
  PrefixIndex index(4, 2, 1, kAllBits);
  index.Insert(0, HashOf(1), kTokens, 3);
  EXPECT_EQ(index.Find(0, HashOf(1), kOtherTokens), kNoBlock);
}

TEST(PrefixIndexTest, EqualKeyAndTokensWithAnotherHashIsAMiss) {
  PrefixIndex index(4, 2, 1, kAllBits);
  index.Insert(0, HashOf(1, 1), kTokens, 3);
  EXPECT_EQ(index.Find(0, HashOf(1, 2), kTokens), kNoBlock);
}

TEST(PrefixIndexTest, TheFirstOfTwoWithOneKeyStays) {
  PrefixIndex index(4, 2, 1, /*key_bits=*/1);
  EXPECT_TRUE(index.Insert(0, HashOf(2), kTokens, 0));
  EXPECT_FALSE(index.Insert(0, HashOf(4), kOtherTokens, 1));
  EXPECT_EQ(index.Find(0, HashOf(2), kTokens), 0);
  EXPECT_EQ(index.Find(0, HashOf(4), kOtherTokens), kNoBlock);
  EXPECT_FALSE(index.Contains(1));
  index.CheckInvariants();
}

TEST(PrefixIndexTest, GroupsAreApart) {
  PrefixIndex index(4, 2, 2, kAllBits);
  EXPECT_TRUE(index.Insert(0, HashOf(1), kTokens, 0));
  EXPECT_EQ(index.Find(1, HashOf(1), kTokens), kNoBlock);
  EXPECT_TRUE(index.Insert(1, HashOf(1), kTokens, 1));
  EXPECT_EQ(index.Find(0, HashOf(1), kTokens), 0);
  EXPECT_EQ(index.Find(1, HashOf(1), kTokens), 1);
  index.CheckInvariants();
}

TEST(PrefixIndexTest, AnErasedBlockIsGoneAndCanCacheOtherContents) {
  PrefixIndex index(4, 2, 1, kAllBits);
  index.Insert(0, HashOf(1), kTokens, 0);
  index.Erase(0);
  EXPECT_EQ(index.Find(0, HashOf(1), kTokens), kNoBlock);
  EXPECT_EQ(index.size(), 0);
  EXPECT_TRUE(index.Insert(0, HashOf(2), kOtherTokens, 0));
  EXPECT_EQ(index.Find(0, HashOf(2), kOtherTokens), 0);
  index.CheckInvariants();
}

TEST(PrefixIndexDeathTest, ABlockIsEnteredOnceOnly) {
  PrefixIndex index(4, 2, 1, kAllBits);
  index.Insert(0, HashOf(1), kTokens, 0);
  EXPECT_DEATH(index.Insert(0, HashOf(2), kTokens, 0), "block 0");
  EXPECT_DEATH(index.Erase(1), "block 1");
}

}  // namespace
}  // namespace quire
