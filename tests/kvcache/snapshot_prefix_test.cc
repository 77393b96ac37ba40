// The prefix cache where layers keep states: a prefix is used as far as there is a snapshot of the
// state after it.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "kvcache/block_manager.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 4;
constexpr int32_t kGrid = 8;

BlockManagerConfig Config(int64_t num_blocks, int64_t num_states, int64_t num_reserved,
                          std::vector<KvSpec> groups = {{}}) {
  BlockManagerConfig config;
  config.num_blocks = num_blocks;
  config.block_size = kBlockSize;
  config.groups = std::move(groups);
  config.num_state_slots = num_states;
  config.num_reserved_states = num_reserved;
  config.snapshot_grid = kGrid;
  return config;
}

std::vector<TokenId> Tokens(int64_t num_tokens, TokenId first = 100) {
  std::vector<TokenId> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Runs a sequence in one step, which leaves snapshots after `boundaries`, as far as they are given
// slots. Returns the attached tokens.
int64_t Compute(BlockManager& blocks, const std::vector<TokenId>& tokens, BlockTable* table,
                const std::vector<int64_t>& boundaries = {}) {
  const int64_t num_cached = blocks.AttachPrefix(tokens, "", table);
  EXPECT_TRUE(blocks.TryGrow(table, tokens.size()));
  std::vector<StateSlot> slots;
  slots.reserve(boundaries.size());
  for (const int64_t boundary : boundaries) {
    slots.push_back(blocks.BeginSnapshot(table, tokens, boundary, ""));
  }
  blocks.Publish(table, tokens, tokens.size(), "");
  blocks.ReleaseBeginning(table);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != kNoState) blocks.FinishSnapshot(*table, tokens, boundaries[i], slots[i]);
  }
  blocks.ReleaseOutsideWindow(table, tokens.size());
  return num_cached;
}

int64_t ComputeAndRelease(BlockManager& blocks, const std::vector<TokenId>& tokens,
                          const std::vector<int64_t>& boundaries = {}) {
  BlockTable table;
  const int64_t num_cached = Compute(blocks, tokens, &table, boundaries);
  blocks.Release(&table);
  blocks.CheckInvariants({});
  return num_cached;
}

TEST(SnapshotPrefixTest, BlocksAloneAreNotEnough) {
  BlockManager blocks(Config(32, 4, 2));
  ComputeAndRelease(blocks, Tokens(20));
  EXPECT_EQ(ComputeAndRelease(blocks, Tokens(20)), 0);
  EXPECT_EQ(blocks.stats().num_recomputed_tokens, 16);
  EXPECT_EQ(blocks.stats().prefix_hit_tokens, 0);
}

TEST(SnapshotPrefixTest, APrefixIsUsedAsFarAsTheLastSnapshot) {
  BlockManager blocks(Config(32, 6, 2));
  ComputeAndRelease(blocks, Tokens(30), {8, 16});
  BlockTable table;
  const PrefixMatch match = blocks.FindPrefix(Tokens(30), "", &table);
  EXPECT_EQ(match.num_tokens, 16);
  EXPECT_EQ(match.num_blocks, 4);
  EXPECT_EQ(match.num_paged_tokens, 28);
  EXPECT_EQ(blocks.AttachPrefix(Tokens(30), "", &table), 16);
  EXPECT_EQ(table.num_paged_tokens, 28);
  EXPECT_EQ(table.num_held(), 4);
  EXPECT_EQ(blocks.stats().num_recomputed_tokens, 12);
  EXPECT_EQ(blocks.stats().states.num_hits, 1);
  BlockTable shorter;
  EXPECT_EQ(blocks.FindPrefix(Tokens(16), "", &shorter).num_tokens, 8);
}

TEST(SnapshotPrefixTest, ASequenceReadsTheSnapshotAndWritesASlotOfItsOwn) {
  BlockManager blocks(Config(32, 6, 2));
  ComputeAndRelease(blocks, Tokens(20), {16});
  BlockTable a, b;
  blocks.AttachPrefix(Tokens(20), "", &a);
  blocks.AttachPrefix(Tokens(24), "", &b);
  EXPECT_NE(a.begins_from, kNoState);
  EXPECT_EQ(a.begins_from, b.begins_from);
  ASSERT_TRUE(blocks.TryGrow(&a, 20));
  ASSERT_TRUE(blocks.TryGrow(&b, 20));
  EXPECT_NE(a.state, b.state);
  EXPECT_NE(a.state, a.begins_from);
  blocks.CheckInvariants({&a, &b});
  const StateSlot state = a.state;
  blocks.ReleaseBeginning(&a);
  ASSERT_TRUE(blocks.TryGrow(&a, 24));
  EXPECT_EQ(a.state, state);
  EXPECT_EQ(a.begins_from, kNoState);
  blocks.CheckInvariants({&a, &b});
}

TEST(SnapshotPrefixTest, WithoutAPrefixASequenceHasASlotToo) {
  BlockManager blocks(Config(32, 2, 2));
  BlockTable table;
  ASSERT_TRUE(blocks.TryGrow(&table, 5));
  EXPECT_NE(table.state, kNoState);
  EXPECT_EQ(table.begins_from, kNoState);
  blocks.Release(&table);
  EXPECT_EQ(table.state, kNoState);
  EXPECT_EQ(blocks.stats().states.num_free, 2);
}

TEST(SnapshotPrefixTest, GrowthThatFailsTakesNoSlot) {
  BlockManager blocks(Config(2, 2, 2));
  BlockTable table;
  EXPECT_FALSE(blocks.TryGrow(&table, 9));
  EXPECT_EQ(table.state, kNoState);
  EXPECT_EQ(blocks.stats().states.num_live, 0);
}

TEST(SnapshotPrefixTest, ReleaseDropsWhatItBeganFrom) {
  BlockManager blocks(Config(32, 6, 2));
  ComputeAndRelease(blocks, Tokens(20), {16});
  BlockTable table;
  blocks.AttachPrefix(Tokens(20), "", &table);
  blocks.Release(&table);
  EXPECT_EQ(table.begins_from, kNoState);
  blocks.CheckInvariants({});
  EXPECT_EQ(blocks.AttachPrefix(Tokens(20), "", &table), 16);
}

TEST(SnapshotPrefixTest, ASnapshotThatIsThereIsNotMadeAgain) {
  BlockManager blocks(Config(32, 6, 2));
  ComputeAndRelease(blocks, Tokens(20), {8, 16});
  BlockTable table;
  blocks.FindPrefix(Tokens(20), "", &table);
  EXPECT_EQ(blocks.BeginSnapshot(&table, Tokens(20), 16, ""), kNoState);
  EXPECT_EQ(blocks.stats().states.num_refused, 0);
  EXPECT_EQ(blocks.stats().states.num_made, 2);
}

// FindPrefix has not looked at the last block, because one token is always computed.
TEST(SnapshotPrefixTest, NorIsTheOneAfterTheLastToken) {
  BlockManager blocks(Config(32, 6, 2));
  ComputeAndRelease(blocks, Tokens(16), {16});
  BlockTable table;
  blocks.AttachPrefix(Tokens(16), "", &table);
  EXPECT_EQ(blocks.BeginSnapshot(&table, Tokens(16), 16, ""), kNoState);
}

// The last token may still be on the device.
TEST(SnapshotPrefixTest, ASnapshotAfterAnUnknownTokenIsBegunAnyway) {
  BlockManager blocks(Config(32, 6, 2));
  ComputeAndRelease(blocks, Tokens(16), {16});
  const std::vector<TokenId> known = Tokens(15);
  BlockTable table;
  blocks.AttachPrefix(known, "", &table);
  ASSERT_TRUE(blocks.TryGrow(&table, 16));
  const StateSlot slot = blocks.BeginSnapshot(&table, known, 16, "");
  ASSERT_NE(slot, kNoState);
  blocks.Publish(&table, Tokens(16), 16, "");
  blocks.FinishSnapshot(table, Tokens(16), 16, slot);
  EXPECT_EQ(blocks.stats().states.num_made, 1);
  blocks.CheckInvariants({&table});
}

// Two sequences of equal tokens in one step: neither finds the other's.
TEST(SnapshotPrefixTest, EqualSnapshotsOfOneStepAreKeptOnce) {
  BlockManager blocks(Config(32, 6, 2));
  const std::vector<TokenId> tokens = Tokens(16);
  BlockTable a, b;
  for (BlockTable* table : {&a, &b}) {
    blocks.AttachPrefix(tokens, "", table);
    ASSERT_TRUE(blocks.TryGrow(table, 16));
  }
  const StateSlot slots[] = {blocks.BeginSnapshot(&a, tokens, 16, ""),
                             blocks.BeginSnapshot(&b, tokens, 16, "")};
  EXPECT_NE(slots[0], slots[1]);
  blocks.CheckInvariants({&a, &b}, slots);
  blocks.Publish(&a, tokens, 16, "");
  blocks.FinishSnapshot(a, tokens, 16, slots[0]);
  blocks.Publish(&b, tokens, 16, "");
  blocks.FinishSnapshot(b, tokens, 16, slots[1]);
  blocks.CheckInvariants({&a, &b});
  EXPECT_EQ(blocks.stats().states.num_snapshots, 1);
}

TEST(SnapshotPrefixTest, ADroppedSnapshotIsNotFound) {
  BlockManager blocks(Config(32, 6, 2));
  BlockTable table;
  ASSERT_TRUE(blocks.TryGrow(&table, 16));
  const StateSlot slot = blocks.BeginSnapshot(&table, Tokens(16), 8, "");
  blocks.Publish(&table, Tokens(16), 16, "");
  blocks.DropSnapshot(slot);
  BlockTable other;
  EXPECT_EQ(blocks.FindPrefix(Tokens(16), "", &other).num_tokens, 0);
  blocks.CheckInvariants({&table});
}

TEST(SnapshotPrefixTest, ASnapshotGoesWithItsBlock) {
  BlockManager blocks(Config(6, 6, 2));
  ComputeAndRelease(blocks, Tokens(20), {8, 16});
  ComputeAndRelease(blocks, Tokens(12, 500));  // takes the unused block and those of [12, 20)
  EXPECT_EQ(blocks.stats().states.num_snapshots, 1);
  EXPECT_EQ(blocks.stats().states.num_evicted, 0);
  BlockTable table;
  EXPECT_EQ(blocks.FindPrefix(Tokens(20), "", &table).num_tokens, 8);
  EXPECT_EQ(blocks.FlushPrefixCache(), 6);
  EXPECT_EQ(blocks.stats().states.num_snapshots, 0);
  blocks.CheckInvariants({});
}

TEST(SnapshotPrefixTest, ASnapshotMayGoBeforeItsBlock) {
  BlockManager blocks(Config(64, 3, 1));
  ComputeAndRelease(blocks, Tokens(20), {8, 16});
  ComputeAndRelease(blocks, Tokens(20, 500), {16});
  BlockTable table;
  // Two snapshots beside the running sequence: the one after 8 tokens was the oldest.
  const PrefixMatch match = blocks.FindPrefix(Tokens(20), "", &table);
  EXPECT_EQ(match.num_tokens, 16);
  EXPECT_EQ(match.num_paged_tokens, 16);
  BlockTable shorter;
  EXPECT_EQ(blocks.FindPrefix(Tokens(12), "", &shorter).num_tokens, 0);
}

// All slots may be wanted by sequences: then a hit is a miss, and nobody waits.
TEST(SnapshotPrefixTest, ASequenceBeginsAtZeroWhenNoSlotIsToSpare) {
  BlockManager blocks(Config(64, 3, 2));
  ComputeAndRelease(blocks, Tokens(20), {16});
  ComputeAndRelease(blocks, Tokens(20, 500), {8});
  BlockTable a, b, c;
  EXPECT_EQ(blocks.AttachPrefix(Tokens(20, 500), "", &a), 8);
  EXPECT_TRUE(blocks.FindPrefix(Tokens(20), "", &b).is_refused);
  EXPECT_EQ(blocks.stats().states.num_refused, 0);
  EXPECT_EQ(blocks.AttachPrefix(Tokens(20), "", &b), 0);
  EXPECT_EQ(blocks.stats().states.num_refused, 1);
  EXPECT_EQ(blocks.AttachPrefix(Tokens(20, 500), "", &c), 8);  // shares what is held
  blocks.Release(&c);
  blocks.Release(&b);
  ASSERT_TRUE(blocks.TryGrow(&a, 20));
  blocks.ReleaseBeginning(&a);
  EXPECT_EQ(blocks.AttachPrefix(Tokens(20), "", &b), 16);
  ASSERT_TRUE(blocks.TryGrow(&b, 20));
  blocks.CheckInvariants({&a, &b});
}

TEST(SnapshotPrefixTest, SaltsNeverShareAState) {
  BlockManager blocks(Config(32, 6, 2));
  ComputeAndRelease(blocks, Tokens(20), {16});
  BlockTable table;
  EXPECT_EQ(blocks.FindPrefix(Tokens(20), "tenant", &table).num_tokens, 0);
}

// The windowed group has lost what a sequence that begins from the snapshot sees.
TEST(SnapshotPrefixTest, GroupsAndStatesAgreeOnOneLength) {
  BlockManager blocks(Config(6, 8, 2, {{}, {.sliding_window = 4}}));
  ComputeAndRelease(blocks, Tokens(12), {8});
  BlockTable table;
  EXPECT_EQ(blocks.FindPrefix(Tokens(13), "", &table).num_tokens, 8);
  BlockTable other;
  ASSERT_TRUE(blocks.TryGrow(&other, 4));  // evicts the two blocks that slid out of the window
  const PrefixMatch match = blocks.FindPrefix(Tokens(13), "", &table);
  EXPECT_EQ(match.num_paged_tokens, 12);
  EXPECT_EQ(match.num_tokens, 0);
  EXPECT_EQ(blocks.stats().states.num_snapshots, 1);
  EXPECT_EQ(blocks.AttachPrefix(Tokens(13), "", &table), 0);
  blocks.CheckInvariants({&table, &other});
}

TEST(SnapshotPrefixTest, SwitchedOffItFindsNothing) {
  BlockManagerConfig config = Config(32, 4, 2);
  config.enable_prefix_caching = false;
  BlockManager blocks(config);
  BlockTable table;
  EXPECT_EQ(blocks.AttachPrefix(Tokens(20), "", &table), 0);
  ASSERT_TRUE(blocks.TryGrow(&table, 20));
  EXPECT_NE(table.state, kNoState);
  blocks.Release(&table);
  EXPECT_EQ(blocks.stats().states.num_free, 4);
}

// One key bit: blocks that a collision kept out of the cache have no snapshots either.
TEST(SnapshotPrefixTest, CollisionsCostMissesAndNeverGiveWrongHits) {
  BlockManagerConfig config = Config(64, 32, 2);
  config.hash_bits_for_test = 1;
  BlockManager blocks(config);
  for (TokenId first = 0; first < 50; ++first) {
    EXPECT_EQ(ComputeAndRelease(blocks, Tokens(9, first * 1000), {8}), 0) << first;
  }
  EXPECT_LE(blocks.stats().states.num_snapshots, 2);
}

TEST(SnapshotPrefixTest, AModelWithoutStatesHasNone) {
  BlockManagerConfig config = Config(32, 0, 0);
  BlockManager blocks(config);
  BlockTable table;
  ASSERT_TRUE(blocks.TryGrow(&table, 20));
  EXPECT_EQ(table.state, kNoState);
  EXPECT_EQ(blocks.stats().states.num_slots, 0);
}

TEST(SnapshotPrefixDeathTest, InvariantsSeeASnapshotThatWasNeverFinished) {
  BlockManager blocks(Config(32, 4, 2));
  BlockTable table;
  ASSERT_TRUE(blocks.TryGrow(&table, 8));
  EXPECT_NE(blocks.BeginSnapshot(&table, Tokens(8), 8, ""), kNoState);
  EXPECT_DEATH(blocks.CheckInvariants({&table}), "slot 1");
  EXPECT_DEATH(blocks.BeginSnapshot(&table, Tokens(8), 4, ""), "snapshot_grid");
}

}  // namespace
}  // namespace quire
