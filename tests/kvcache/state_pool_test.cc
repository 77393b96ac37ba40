#include "kvcache/state_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

using testing::AnyOf;

constexpr int32_t kBlockSize = 2;

// Different contents for each `i`.
BlockHash Hash(uint8_t i) {
  BlockHash hash;
  hash.bytes.fill(i);
  return hash;
}

std::vector<TokenId> Tokens(uint8_t i) { return {i, i}; }

StatePool Pool(int64_t num_slots, int64_t num_reserved) {
  return StatePool(num_slots, num_reserved, kBlockSize, /*key_bits=*/64);
}

StateSlot Find(const StatePool& pool, uint8_t i) { return pool.Find(Hash(i), Tokens(i)); }

StateSlot Finish(StatePool& pool, uint8_t i) {
  const StateSlot slot = pool.TakeForSnapshot();
  if (slot != kNoState) pool.Finish(slot, Hash(i), Tokens(i));
  return slot;
}

TEST(StatePoolTest, SequencesHaveSlotsOfTheirOwn) {
  StatePool pool = Pool(3, 2);
  const StateSlot a = pool.Take();
  const StateSlot b = pool.Take();
  EXPECT_NE(a, b);
  pool.CheckInvariants({a, b}, {}, {});
  pool.Release(a);
  EXPECT_EQ(pool.stats().num_live, 1);
  EXPECT_THAT(pool.Take(), testing::Ne(b));
}

TEST(StatePoolTest, ASnapshotIsFoundWhenItIsFinished) {
  StatePool pool = Pool(3, 2);
  const StateSlot slot = pool.TakeForSnapshot();
  EXPECT_EQ(Find(pool, 1), kNoState);
  pool.CheckInvariants({}, {}, {slot});
  pool.Finish(slot, Hash(1), Tokens(1));
  EXPECT_EQ(Find(pool, 1), slot);
  EXPECT_EQ(Find(pool, 2), kNoState);
  EXPECT_EQ(pool.Find(Hash(1), Tokens(2)), kNoState);
  pool.CheckInvariants({}, {}, {});
}

TEST(StatePoolTest, ADroppedSnapshotIsNeverFoundAndItsSlotIsUsedNext) {
  StatePool pool = Pool(3, 1);
  const StateSlot slot = pool.TakeForSnapshot();
  pool.Drop(slot);
  EXPECT_EQ(pool.stats().num_made, 0);
  EXPECT_EQ(pool.Take(), slot);
}

TEST(StatePoolTest, OfEqualContentsTheFirstIsKept) {
  StatePool pool = Pool(4, 1);
  const StateSlot first = pool.TakeForSnapshot();
  const StateSlot second = pool.TakeForSnapshot();
  pool.Finish(first, Hash(1), Tokens(1));
  pool.Finish(second, Hash(1), Tokens(1));
  EXPECT_EQ(Find(pool, 1), first);
  EXPECT_EQ(pool.stats().num_made, 1);
  EXPECT_EQ(pool.stats().num_free, 3);
  pool.CheckInvariants({}, {}, {});
}

// Idle slots of sequences keep snapshots, and sequences take them back.
TEST(StatePoolTest, SnapshotsFillWhatSequencesLeaveAndMakeWay) {
  StatePool pool = Pool(3, 2);
  for (uint8_t i = 1; i <= 3; ++i) EXPECT_NE(Finish(pool, i), kNoState);
  EXPECT_EQ(pool.stats().num_snapshots, 3);
  const StateSlot oldest = Find(pool, 1);
  const StateSlot live = pool.Take();
  EXPECT_EQ(live, oldest);
  EXPECT_EQ(Find(pool, 1), kNoState);
  EXPECT_NE(Find(pool, 2), kNoState);
  EXPECT_EQ(pool.stats().num_evicted, 1);
  pool.CheckInvariants({live}, {}, {});
}

TEST(StatePoolTest, TheLeastRecentlyUsedSnapshotGoesFirst) {
  StatePool pool = Pool(3, 1);
  for (uint8_t i = 1; i <= 3; ++i) Finish(pool, i);
  pool.Hold(Find(pool, 1));
  pool.Drop(Find(pool, 1));
  Finish(pool, 4);
  EXPECT_EQ(Find(pool, 2), kNoState);
  EXPECT_NE(Find(pool, 1), kNoState);
  EXPECT_NE(Find(pool, 3), kNoState);
}

TEST(StatePoolTest, SnapshotsInFlightLeaveSequencesTheirSlots) {
  StatePool pool = Pool(4, 2);
  const StateSlot a = pool.TakeForSnapshot();
  const StateSlot b = pool.TakeForSnapshot();
  EXPECT_EQ(pool.TakeForSnapshot(), kNoState);
  EXPECT_EQ(pool.stats().num_refused, 1);
  const StateSlot live[] = {pool.Take(), pool.Take()};
  pool.CheckInvariants(live, {}, {a, b});
  pool.Drop(a);
  EXPECT_EQ(pool.TakeForSnapshot(), a);
}

// The running sequences have theirs already: they do not count twice.
TEST(StatePoolTest, AsManySnapshotsAreInFlightWhoeverRuns) {
  for (int num_live = 0; num_live <= 2; ++num_live) {
    StatePool pool = Pool(5, 2);
    for (int i = 0; i < num_live; ++i) pool.Take();
    int num_taken = 0;
    while (pool.TakeForSnapshot() != kNoState) ++num_taken;
    EXPECT_EQ(num_taken, 3) << num_live;
  }
}

TEST(StatePoolTest, AHeldSnapshotStays) {
  StatePool pool = Pool(3, 2);
  const StateSlot held = Finish(pool, 1);
  ASSERT_TRUE(pool.CanHold(held));
  pool.Hold(held);
  const StateSlot live[] = {pool.Take(), pool.Take()};
  EXPECT_EQ(Find(pool, 1), held);
  pool.CheckInvariants(live, {held}, {});
  pool.Hold(held);  // a second sequence begins from it
  pool.CheckInvariants(live, {held, held}, {});
  pool.Drop(held);
  pool.Drop(held);
  EXPECT_EQ(pool.stats().num_hits, 2);
  EXPECT_EQ(pool.TakeForSnapshot(), held);
}

TEST(StatePoolTest, NoMoreSnapshotsAreHeldThanThereIsToSpare) {
  StatePool pool = Pool(3, 2);
  const StateSlot a = Finish(pool, 1);
  const StateSlot b = Finish(pool, 2);
  pool.Hold(a);
  EXPECT_TRUE(pool.CanHold(a));
  EXPECT_FALSE(pool.CanHold(b));
  EXPECT_EQ(pool.TakeForSnapshot(), kNoState);
  pool.Drop(a);
  EXPECT_TRUE(pool.CanHold(b));
}

TEST(StatePoolTest, AForgottenSnapshotIsUsedNext) {
  StatePool pool = Pool(3, 1);
  for (uint8_t i = 1; i <= 3; ++i) Finish(pool, i);
  const StateSlot slot = Find(pool, 3);
  pool.Forget(Hash(3), Tokens(3));
  pool.Forget(Hash(9), Tokens(9));  // there is none
  EXPECT_EQ(Find(pool, 3), kNoState);
  EXPECT_EQ(pool.stats().num_free, 1);
  EXPECT_EQ(pool.Take(), slot);
  EXPECT_EQ(pool.stats().num_evicted, 0);
  pool.CheckInvariants({slot}, {}, {});
}

TEST(StatePoolTest, WhoeverHoldsAForgottenSnapshotKeepsIt) {
  StatePool pool = Pool(2, 1);
  const StateSlot slot = Finish(pool, 1);
  pool.Hold(slot);
  pool.Forget(Hash(1), Tokens(1));
  pool.CheckInvariants({}, {slot}, {});
  EXPECT_NE(pool.Take(), slot);
  pool.Drop(slot);
  EXPECT_EQ(pool.stats().num_free, 1);
}

TEST(StatePoolTest, ACollisionCostsASnapshotAndNeverFindsAWrongOne) {
  StatePool pool(8, 1, kBlockSize, /*key_bits=*/1);
  for (uint8_t i = 1; i <= 6; ++i) {
    const StateSlot slot = Finish(pool, i);
    EXPECT_THAT(Find(pool, i), AnyOf(slot, kNoState));
    pool.CheckInvariants({}, {}, {});
  }
  EXPECT_EQ(pool.stats().num_made, 2);
  EXPECT_EQ(pool.stats().num_free, 6);
}

TEST(StatePoolTest, EverySlotIsLiveASnapshotOrFree) {
  StatePool pool = Pool(6, 2);
  pool.Take();
  pool.TakeForSnapshot();
  pool.Hold(Finish(pool, 1));
  Finish(pool, 2);
  const StateStats stats = pool.stats();
  EXPECT_EQ(stats.num_slots, 6);
  EXPECT_EQ(stats.num_live, 1);
  EXPECT_EQ(stats.num_snapshots, 3);
  EXPECT_EQ(stats.num_free, 2);
}

TEST(StatePoolDeathTest, InvariantsSeeALeak) {
  StatePool pool = Pool(3, 2);
  const StateSlot live = pool.Take();
  EXPECT_DEATH(pool.CheckInvariants({}, {}, {}), "slot 0");
  EXPECT_DEATH(pool.CheckInvariants({live, live}, {}, {}), "slot 0");
  const StateSlot begun = pool.TakeForSnapshot();
  EXPECT_DEATH(pool.CheckInvariants({live}, {}, {}), "slot 1");
  EXPECT_DEATH(pool.CheckInvariants({}, {}, {live, begun}), "num_live");
}

TEST(StatePoolDeathTest, MoreSequencesThanWereReservedFor) {
  StatePool pool = Pool(3, 1);
  pool.Take();
  EXPECT_DEATH(pool.Take(), "num_reserved");
}

}  // namespace
}  // namespace quire
