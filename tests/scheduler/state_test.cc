// States in steps: which slot a step reads and writes, and where it leaves snapshots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/scheduler/harness.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kGrid = 8;  // two blocks

BlockManagerConfig Blocks(int64_t num_spare = 8, int64_t num_blocks = 64) {
  BlockManagerConfig config = SmallBlocks(num_blocks);
  config.num_reserved_states = SmallScheduler().max_num_seqs;
  config.num_state_slots = config.num_reserved_states + num_spare;
  config.snapshot_grid = kGrid;
  return config;
}

SchedulerConfig Config(int64_t interval = 32) {
  SchedulerConfig config = SmallScheduler();
  config.snapshot_interval = interval;
  return config;
}

class StateTest : public testing::Test {
 protected:
  explicit StateTest(const BlockManagerConfig& blocks = Blocks()) : h_(Config(), blocks) {}

  const ScheduledSequence& Last(size_t i = 0) const { return h_.last_output.sequences[i]; }
  StateStats States() const { return h_.scheduler.stats().blocks.states; }

  // After how many tokens of their sequences the newest step leaves snapshots.
  std::vector<int64_t> Boundaries() const {
    std::vector<int64_t> boundaries;
    for (const ScheduledSequence& sequence : h_.last_output.sequences) {
      for (const StateSnapshot& snapshot : sequence.snapshots) {
        boundaries.push_back(sequence.start + snapshot.num_tokens);
      }
    }
    return boundaries;
  }

  // Adds a request whose prompt begins with `num_shared` tokens of request 1's.
  void AddSharing(RequestId id, int64_t num_prompt_tokens, int64_t max_tokens, int64_t num_shared) {
    h_.Add(id, num_prompt_tokens, max_tokens, [&](Request* request) {
      for (int64_t i = 0; i < num_shared; ++i) request->prompt[i] = static_cast<TokenId>(1000 + i);
    });
  }

  SchedulerHarness h_;
};

TEST_F(StateTest, AStepReadsWhatTheOneBeforeWrote) {
  h_.Add(1, 20, 3);
  EXPECT_EQ(h_.Step(), "1:[0,16)");
  EXPECT_EQ(Last().state_in, kNoState);
  const StateSlot own = Last().state_out;
  EXPECT_NE(own, kNoState);
  EXPECT_EQ(h_.Step(), "1:[16,20)*");
  EXPECT_EQ(Last().state_in, own);
  EXPECT_EQ(Last().state_out, own);
  EXPECT_EQ(h_.Step(), "1:[20,21)*");
  EXPECT_EQ(Last().state_in, own);
}

TEST_F(StateTest, SequencesHaveSlotsOfTheirOwn) {
  h_.Add(1, 4, 3);
  h_.Add(2, 4, 3);
  h_.Step();
  EXPECT_NE(Last(0).state_out, Last(1).state_out);
  EXPECT_EQ(States().num_live, 2);
  h_.RunToEnd();
  EXPECT_EQ(States().num_live, 0);
}

TEST_F(StateTest, APromptLeavesASnapshotInTheStepThatPassesIt) {
  h_.Add(1, 30, 3);
  EXPECT_EQ(h_.Step(), "1:[0,16)");
  EXPECT_THAT(Boundaries(), IsEmpty());
  EXPECT_EQ(h_.Step(), "1:[16,30)*");
  EXPECT_THAT(Boundaries(), ElementsAre(24));
  EXPECT_NE(Last().snapshots[0].slot, Last().state_out);
}

TEST_F(StateTest, TheSamePromptAgainBeginsFromTheSnapshot) {
  h_.Add(1, 30, 1);
  h_.Step();
  h_.Step();
  const StateSlot snapshot = Last().snapshots[0].slot;
  AddSharing(2, 30, 2, 30);
  EXPECT_EQ(h_.Schedule(), "2:[24,30)*");
  EXPECT_EQ(Last().state_in, snapshot);
  EXPECT_NE(Last().state_out, snapshot);
  EXPECT_THAT(Boundaries(), IsEmpty());  // it is there
  const StateSlot own = Last().state_out;
  EXPECT_EQ(h_.Schedule(), "2:[30,31)*");
  EXPECT_EQ(Last().state_in, own);
  h_.Commit();
  h_.Commit();
  EXPECT_EQ(States().num_hits, 1);
}

// Both begin in one step: they read one slot and write two.
TEST_F(StateTest, TwoSequencesBeginFromOneSnapshot) {
  h_.Add(1, 30, 1);
  h_.RunToEnd();
  AddSharing(2, 30, 2, 30);
  AddSharing(3, 30, 2, 30);
  EXPECT_EQ(h_.Step(), "2:[24,30)* 3:[24,30)*");
  EXPECT_EQ(Last(0).state_in, Last(1).state_in);
  EXPECT_NE(Last(0).state_out, Last(1).state_out);
}

TEST_F(StateTest, AConversationGoesOnFromTheEndOfItsPrompt) {
  h_.Add(1, 16, 1);
  h_.RunToEnd();
  AddSharing(2, 20, 1, 16);
  EXPECT_EQ(h_.Step(), "2:[16,20)*");
}

TEST_F(StateTest, OtherContinuationsBeginFromTheFirstOnesSnapshot) {
  h_.Add(1, 14, 2, [](Request* request) { request->sampling.n = 2; });
  EXPECT_EQ(h_.Step(), "1:[0,14)*");
  EXPECT_EQ(h_.Step(), "1:[14,15)* 1/1:[8,14)*");
  EXPECT_NE(Last(1).state_in, kNoState);
}

// The second request shows how much is shared, and the third one uses it.
TEST_F(StateTest, ASharedBeginningIsKeptWhenItIsSeenToBeShared) {
  h_.Add(1, 40, 1);
  h_.RunToEnd();
  AddSharing(2, 30, 1, 21);
  EXPECT_EQ(h_.Step(), "2:[0,16)");
  EXPECT_THAT(Boundaries(), ElementsAre(16));
  h_.RunToEnd();
  AddSharing(3, 30, 1, 21);
  EXPECT_EQ(h_.Step(), "3:[16,30)*");
  EXPECT_EQ(h_.scheduler.stats().blocks.num_recomputed_tokens, 20 + 4);
}

TEST_F(StateTest, AnswersLeaveSnapshotsAtIntervals) {
  h_.Add(1, 4, 40);
  std::vector<int64_t> boundaries;
  while (!h_.Step().empty()) {
    for (const int64_t boundary : Boundaries()) boundaries.push_back(boundary);
  }
  EXPECT_THAT(boundaries, ElementsAre(32));
}

// The token before it is known to the device only.
TEST_F(StateTest, ASnapshotAfterATokenOnTheDevice) {
  h_.Add(1, 31, 4);
  h_.Step();
  EXPECT_EQ(h_.Schedule(), "1:[16,31)*");
  EXPECT_EQ(h_.Schedule(), "1:[31,32)*");
  EXPECT_THAT(Boundaries(), ElementsAre(32));
  h_.Commit();
  EXPECT_EQ(States().num_made, 1);  // after 24
  h_.Commit();
  EXPECT_EQ(States().num_made, 2);
}

TEST_F(StateTest, ASnapshotInFlightIsNotFound) {
  h_.Add(1, 15, 1);
  h_.Schedule();
  AddSharing(2, 15, 1, 15);
  EXPECT_EQ(h_.Schedule(), "2:[0,15)*");
  h_.Commit();
  AddSharing(3, 15, 1, 15);
  EXPECT_EQ(h_.Schedule(), "3:[8,15)*");
  h_.Commit();
  h_.Commit();
  EXPECT_EQ(States().num_snapshots, 1);
}

TEST_F(StateTest, ACancelledSequenceLeavesNoSnapshot) {
  h_.Add(1, 15, 9);
  h_.Schedule();
  EXPECT_THAT(Boundaries(), ElementsAre(8));
  h_.scheduler.Cancel(1, FinishReason::kAbort);
  h_.Commit();
  EXPECT_EQ(States().num_made, 0);
  EXPECT_EQ(States().num_free, States().num_slots);
}

TEST_F(StateTest, BrokenLogitsLeaveNoSnapshot) {
  h_.Add(1, 15, 9);
  h_.Schedule();
  h_.BreakLogits();
  h_.Commit();
  EXPECT_EQ(States().num_made, 0);
  EXPECT_EQ(States().num_free, States().num_slots);
}

TEST_F(StateTest, APromptWhoseLogprobsAreWantedBeginsFromZeros) {
  h_.Add(1, 15, 1);
  h_.RunToEnd();
  h_.Add(2, 15, 1, [](Request* request) {
    for (int64_t i = 0; i < 15; ++i) request->prompt[i] = static_cast<TokenId>(1000 + i);
    request->sampling.prompt_logprobs = 0;
  });
  EXPECT_EQ(h_.Step(), "2:[0,15)*");
  EXPECT_EQ(Last().state_in, kNoState);
  EXPECT_NE(Last().state_out, kNoState);
}

// A sequence that was pushed out begins again from what it had left.
TEST_F(StateTest, APreemptedSequenceResumesFromItsSnapshot) {
  SchedulerHarness h(Config(), Blocks(/*num_spare=*/8, /*num_blocks=*/7));
  h.Add(1, 12, 12);
  EXPECT_EQ(h.Step(), "1:[0,12)*");
  EXPECT_EQ(h.Step(), "1:[12,13)*");
  h.Add(2, 12, 4, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Step(), "2:[0,12)*");
  EXPECT_EQ(h.scheduler.stats().blocks.states.num_live, 1);
  while (h.last_output.sequences[0].key.request == 2) ASSERT_FALSE(h.Step().empty());
  EXPECT_EQ(h.last_output.sequences[0].start, 8);
  EXPECT_NE(h.last_output.sequences[0].state_in, kNoState);
  h.RunToEnd();
}

class NoSpareTest : public StateTest {
 protected:
  NoSpareTest() : StateTest(Blocks(/*num_spare=*/0)) {}
};

TEST_F(NoSpareTest, NothingIsKept) {
  h_.Add(1, 30, 3);
  h_.Step();
  h_.Step();
  EXPECT_THAT(Boundaries(), IsEmpty());
  h_.RunToEnd();
  AddSharing(2, 30, 1, 30);
  EXPECT_EQ(h_.Step(), "2:[0,16)");
  EXPECT_EQ(States().num_refused, 0);
}

class OneSpareTest : public StateTest {
 protected:
  OneSpareTest() : StateTest(Blocks(/*num_spare=*/1)) {}
};

// The end of the prompt matters more than the places before it.
TEST_F(OneSpareTest, TheMostUsefulSnapshotIsMade) {
  h_.Add(1, 40, 1);
  h_.RunToEnd();
  AddSharing(2, 15, 1, 15);  // parts from the first after 12 tokens, and ends after 15
  h_.Step();
  EXPECT_THAT(Boundaries(), ElementsAre(8));
  h_.Add(3, 16, 1);
  h_.Step();
  EXPECT_THAT(Boundaries(), ElementsAre(8));
  EXPECT_EQ(States().num_refused, 1);
}

TEST(NoStateTest, AModelWithoutStatesHasNoSlots) {
  SchedulerHarness h;
  h.Add(1, 16, 3);
  h.Step();
  EXPECT_EQ(h.last_output.sequences[0].state_in, kNoState);
  EXPECT_EQ(h.last_output.sequences[0].state_out, kNoState);
  EXPECT_THAT(h.last_output.sequences[0].snapshots, IsEmpty());
}

TEST(StateDeathTest, EveryRowNeedsAState) {
  BlockManagerConfig blocks = Blocks();
  blocks.num_reserved_states = Config().max_num_seqs - 1;
  EXPECT_DEATH(Scheduler(Config(), blocks), "num_reserved_states");
}

}  // namespace
}  // namespace quire
