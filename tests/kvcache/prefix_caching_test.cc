// The prefix cache as BlockManager's users see it: what is found, what is kept, what is evicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "kvcache/block_manager.h"

namespace quire {
namespace {

using testing::ElementsAre;

constexpr int32_t kBlockSize = 4;

BlockManagerConfig Config(int64_t num_blocks, std::vector<KvSpec> groups = {{}}) {
  BlockManagerConfig config;
  config.num_blocks = num_blocks;
  config.block_size = kBlockSize;
  config.groups = std::move(groups);
  return config;
}

// num_tokens tokens that start with `first` and count up.
std::vector<TokenId> Tokens(int64_t num_tokens, TokenId first = 100) {
  std::vector<TokenId> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Runs a sequence: attaches, computes all tokens, publishes. Returns the attached tokens.
int64_t Compute(BlockManager* blocks, const std::vector<TokenId>& tokens, BlockTable* table,
                const std::string& salt = "") {
  const int64_t num_cached = blocks->AttachPrefix(tokens, salt, table);
  EXPECT_TRUE(blocks->TryGrow(table, tokens.size()));
  blocks->Publish(table, tokens, tokens.size(), salt);
  blocks->ReleaseOutsideWindow(table, tokens.size());
  return num_cached;
}

int64_t ComputeAndRelease(BlockManager* blocks, const std::vector<TokenId>& tokens,
                          const std::string& salt = "") {
  BlockTable table;
  const int64_t num_cached = Compute(blocks, tokens, &table, salt);
  blocks->Release(&table);
  return num_cached;
}

TEST(PrefixCachingTest, ASecondSequenceFindsTheFullBlocksOfTheFirst) {
  BlockManager blocks(Config(8));
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(10)), 0);
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(10)), 8);
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(20)), 8);
}

TEST(PrefixCachingTest, AtLeastOneTokenIsComputed) {
  BlockManager blocks(Config(8));
  ComputeAndRelease(&blocks, Tokens(8));
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(8)), 4);
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(9)), 8);
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(1)), 0);
}

TEST(PrefixCachingTest, LiveSequencesShareBlocks) {
  BlockManager blocks(Config(4));
  BlockTable a, b;
  Compute(&blocks, Tokens(10), &a);
  EXPECT_EQ(Compute(&blocks, Tokens(10), &b), 8);
  EXPECT_EQ(a.blocks[0][0], b.blocks[0][0]);
  EXPECT_EQ(a.blocks[0][1], b.blocks[0][1]);
  EXPECT_NE(a.blocks[0][2], b.blocks[0][2]);
  EXPECT_EQ(blocks.num_free_blocks(), 0);
  blocks.Release(&a);
  EXPECT_EQ(blocks.num_free_blocks(), 1);
  blocks.CheckInvariants({&b});
}

TEST(PrefixCachingTest, OnlyComputedFullBlocksArePublished) {
  BlockManager blocks(Config(8));
  const std::vector<TokenId> tokens = Tokens(12);
  BlockTable table, other;
  blocks.TryGrow(&table, 12);
  blocks.Publish(&table, tokens, 7, "");
  EXPECT_EQ(blocks.AttachPrefix(tokens, "", &other), 4);
}

TEST(PrefixCachingTest, ADifferentBeginningMakesEqualLaterBlocksDiffer) {
  BlockManager blocks(Config(16));
  std::vector<TokenId> tokens = Tokens(12);
  ComputeAndRelease(&blocks, tokens);
  tokens[0] = 7;
  EXPECT_EQ(ComputeAndRelease(&blocks, tokens), 0);
}

TEST(PrefixCachingTest, SaltsNeverShare) {
  BlockManager blocks(Config(16));
  ComputeAndRelease(&blocks, Tokens(9), "a");
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(9), "b"), 0);
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(9), ""), 0);
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(9), "a"), 8);
}

TEST(PrefixCachingTest, EqualContentsComputedTwiceStayPrivateOnce) {
  BlockManager blocks(Config(4));
  const std::vector<TokenId> tokens = Tokens(8);
  BlockTable a, b;
  // Both miss, because neither has published yet.
  blocks.AttachPrefix(tokens, "", &a);
  blocks.AttachPrefix(tokens, "", &b);
  blocks.TryGrow(&a, 8);
  blocks.TryGrow(&b, 8);
  blocks.Publish(&a, tokens, 8, "");
  blocks.Publish(&b, tokens, 8, "");
  blocks.CheckInvariants({&a, &b});
  blocks.Release(&a);
  blocks.Release(&b);
  EXPECT_EQ(blocks.stats().num_cached_free, 2);
}

TEST(PrefixCachingTest, SwitchedOffItFindsNothing) {
  BlockManagerConfig config = Config(8);
  config.enable_prefix_caching = false;
  BlockManager blocks(config);
  ComputeAndRelease(&blocks, Tokens(9));
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(9)), 0);
  EXPECT_EQ(blocks.stats().num_cached_free, 0);
}

TEST(PrefixCachingTest, FindPrefixForetellsWhatAttachingTakes) {
  BlockManager blocks(Config(8));
  BlockTable live;
  Compute(&blocks, Tokens(9), &live);
  ComputeAndRelease(&blocks, Tokens(14));
  BlockTable table;
  const PrefixMatch match = blocks.FindPrefix(Tokens(14), "", &table);
  EXPECT_EQ(match.num_tokens, 12);
  EXPECT_EQ(match.num_blocks, 3);
  EXPECT_EQ(match.num_free_blocks, 1);  // the other two are held by `live`
  EXPECT_TRUE(table.empty());
  const int64_t num_free = blocks.num_free_blocks();
  EXPECT_EQ(blocks.AttachPrefix(Tokens(14), "", &table), 12);
  EXPECT_EQ(blocks.num_free_blocks(), num_free - 1);
}

TEST(PrefixCachingTest, HashesOutliveReleaseSoNothingIsHashedTwice) {
  BlockManager blocks(Config(8));
  BlockTable table;
  Compute(&blocks, Tokens(9), &table);
  const std::vector<BlockHash> hashes = table.hashes;
  EXPECT_EQ(hashes.size(), 2u);
  blocks.Release(&table);
  EXPECT_EQ(table.hashes, hashes);
  EXPECT_EQ(blocks.AttachPrefix(Tokens(9), "", &table), 8);
  EXPECT_EQ(table.hashes, hashes);
}

TEST(PrefixCachingTest, TheLeastRecentlyReleasedPrefixIsEvictedFirst) {
  BlockManager blocks(Config(4));
  ComputeAndRelease(&blocks, Tokens(8, 100));
  ComputeAndRelease(&blocks, Tokens(8, 200));
  ComputeAndRelease(&blocks, Tokens(9, 100));  // a hit refreshes it, and takes the tail of the 200s
  BlockTable table;
  EXPECT_EQ(blocks.FindPrefix(Tokens(9, 100), "", &table).num_tokens, 8);
  BlockTable other;
  EXPECT_EQ(blocks.FindPrefix(Tokens(9, 200), "", &other).num_tokens, 4);
}

TEST(PrefixCachingTest, TheTailOfAChainIsEvictedBeforeItsBeginning) {
  BlockManager blocks(Config(4));
  ComputeAndRelease(&blocks, Tokens(16));
  ComputeAndRelease(&blocks, Tokens(4, 500));
  BlockTable table;
  EXPECT_EQ(blocks.FindPrefix(Tokens(17), "", &table).num_tokens, 12);
  EXPECT_EQ(blocks.stats().num_evictions, 1);
}

TEST(PrefixCachingTest, BlocksThatWereNeverCachedAreReusedFirst) {
  BlockManager blocks(Config(4));
  ComputeAndRelease(&blocks, Tokens(10));  // two cached blocks, one partial
  ComputeAndRelease(&blocks, Tokens(3, 500));
  ComputeAndRelease(&blocks, Tokens(7, 600));
  EXPECT_EQ(blocks.stats().num_evictions, 0);
}

TEST(PrefixCachingTest, FlushForgetsWhatNobodyHolds) {
  BlockManager blocks(Config(8));
  BlockTable live;
  Compute(&blocks, Tokens(8), &live);
  ComputeAndRelease(&blocks, Tokens(8, 500));
  EXPECT_EQ(blocks.FlushPrefixCache(), 2);
  EXPECT_EQ(blocks.stats().num_cached_free, 0);
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(9, 500)), 0);
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(9)), 8);
  blocks.CheckInvariants({&live});
}

TEST(PrefixCachingTest, StatsCountQueriedAndHitTokens) {
  BlockManager blocks(Config(8));
  ComputeAndRelease(&blocks, Tokens(10));
  ComputeAndRelease(&blocks, Tokens(10));
  EXPECT_EQ(blocks.stats().prefix_queried_tokens, 20);
  EXPECT_EQ(blocks.stats().prefix_hit_tokens, 8);
}

// One key bit: nearly every look-up collides, and no hit may ever be wrong.
TEST(PrefixCachingTest, CollisionsCostMissesAndNeverGiveWrongHits) {
  BlockManagerConfig config = Config(64);
  config.hash_bits_for_test = 1;
  BlockManager blocks(config);
  for (TokenId first = 0; first < 50; ++first) {
    EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(9, first * 1000)), 0) << first;
  }
  EXPECT_LE(blocks.stats().num_cached_free, 2);
}

// Two groups; the second sees four tokens, itself included.
constexpr int64_t kWindow = 4;

TEST(WindowedPrefixTest, OnlyTheBlocksOfTheWindowAreNeeded) {
  BlockManager blocks(Config(32, {{}, {.sliding_window = kWindow}}));
  ComputeAndRelease(&blocks, Tokens(20));
  BlockTable table;
  EXPECT_EQ(blocks.AttachPrefix(Tokens(20), "", &table), 16);
  // The query at 16 sees [13, 17) and so block 3 only.
  EXPECT_EQ(table.first_held, (std::vector<int64_t>{0, 3}));
  EXPECT_THAT(table.blocks[1], ElementsAre(kNoBlock, kNoBlock, kNoBlock, testing::Ge(0)));
  EXPECT_EQ(table.num_held(), 5);
  blocks.CheckInvariants({&table});
}

// Fills a pool of a full and a windowed group with one chain of four blocks each.
class WindowedEvictionTest : public testing::Test {
 protected:
  WindowedEvictionTest() : blocks_(Config(8, {{}, {.sliding_window = kWindow}})) {
    ComputeAndRelease(&blocks_, Tokens(16));
  }
  // Evicts the `n` blocks that are next.
  void Evict(int64_t n) {
    BlockTable table;
    blocks_.TryGrow(&table, n / 2 * kBlockSize);
    blocks_.Release(&table);
  }
  int64_t Hit() {
    BlockTable table;
    return blocks_.FindPrefix(Tokens(17), "", &table).num_tokens;
  }
  BlockManager blocks_;
};

// Windowed blocks 0 .. 2 slid out first and so are evicted first; they are not missed.
TEST_F(WindowedEvictionTest, BlocksBehindTheWindowAreNotMissed) {
  EXPECT_EQ(Hit(), 16);
  Evict(2);
  EXPECT_EQ(Hit(), 16);
}

// Next go the windowed block 2 and the last full one; every shorter prefix lacks its window.
TEST_F(WindowedEvictionTest, AllGroupsAgreeOnOneLength) {
  Evict(4);
  EXPECT_EQ(Hit(), 0);
}

TEST(WindowedPrefixTest, AShorterPrefixServesWhenTheLastWindowIsGone) {
  BlockManager blocks(Config(32, {{}, {.sliding_window = kWindow}}));
  ComputeAndRelease(&blocks, Tokens(9));   // ends after block 1
  ComputeAndRelease(&blocks, Tokens(30));  // ends after block 6
  BlockTable table;
  EXPECT_EQ(blocks.FindPrefix(Tokens(13), "", &table).num_tokens, 12);
  EXPECT_EQ(blocks.FindPrefix(Tokens(28), "", &table).num_tokens, 24);
}

TEST(WindowedPrefixTest, AWindowOfOneNeedsNothingFromBefore) {
  BlockManager blocks(Config(32, {{}, {.sliding_window = 1}}));
  ComputeAndRelease(&blocks, Tokens(12));
  BlockTable table;
  EXPECT_EQ(blocks.AttachPrefix(Tokens(12), "", &table), 8);
  EXPECT_THAT(table.blocks[1], ElementsAre(kNoBlock, kNoBlock));
  EXPECT_EQ(table.num_held(), 2);
  blocks.CheckInvariants({&table});
}

TEST(WindowedPrefixTest, AModelOfWindowsOnlyFindsItsPrefixToo) {
  BlockManager blocks(Config(32, {{.sliding_window = 6}}));
  ComputeAndRelease(&blocks, Tokens(20));
  EXPECT_EQ(ComputeAndRelease(&blocks, Tokens(40)), 20);
}

// With windows only, just the chain of hashes knows what came before the window.
TEST(WindowedPrefixTest, AModelOfWindowsOnlyStillTellsBeginningsApart) {
  BlockManager blocks(Config(32, {{.sliding_window = 4}}));
  std::vector<TokenId> tokens = Tokens(20);
  ComputeAndRelease(&blocks, tokens);
  tokens[0] = 7;
  EXPECT_EQ(ComputeAndRelease(&blocks, tokens), 0);
}

}  // namespace
}  // namespace quire
