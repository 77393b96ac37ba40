// Cancelling in every state: effective with the next step, one end, nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CancelTest : public testing::Test {
 protected:
  void Cancel(RequestId id) { h_.scheduler.Cancel(id, FinishReason::kAbort); }
  void ExpectNothingLeft() {
    EXPECT_FALSE(h_.scheduler.HasUnfinished());
    EXPECT_EQ(h_.scheduler.stats().blocks.num_held, 0);
    EXPECT_EQ(h_.scheduler.stats().num_running, 0);
    EXPECT_EQ(h_.scheduler.stats().num_waiting, 0);
    h_.scheduler.CheckInvariants();
  }
  SchedulerHarness h_;
};

TEST_F(CancelTest, Waiting) {
  h_.Add(1, 4, 9);
  Cancel(1);
  EXPECT_THAT(h_.TakeEvents(), ElementsAre("finished 1 abort"));
  EXPECT_EQ(h_.Schedule(), "");
  ExpectNothingLeft();
}

TEST_F(CancelTest, MidPrompt) {
  h_.Add(1, 40, 9);
  h_.Step();
  Cancel(1);
  EXPECT_EQ(h_.Schedule(), "");
  ExpectNothingLeft();
}

TEST_F(CancelTest, Decoding) {
  h_.Add(1, 4, 9);
  h_.Step();
  h_.Step();
  h_.TakeEvents();
  Cancel(1);
  EXPECT_THAT(h_.TakeEvents(), ElementsAre("finished 1 abort"));
  ExpectNothingLeft();
}

TEST_F(CancelTest, InFlightKeepsItsBlocksUntilTheStepIsBack) {
  h_.Add(1, 4, 9);
  h_.Schedule();
  Cancel(1);
  EXPECT_EQ(h_.scheduler.stats().blocks.num_held, 1);
  EXPECT_TRUE(h_.scheduler.HasUnfinished());
  h_.TakeEvents();
  h_.Commit();
  EXPECT_THAT(h_.TakeEvents(), IsEmpty());  // the late token is dropped
  ExpectNothingLeft();
}

TEST_F(CancelTest, TheFinalStepInFlight) {
  h_.Add(1, 4, 1);
  h_.Schedule();
  Cancel(1);
  h_.Commit();
  EXPECT_THAT(h_.TakeEvents(), ElementsAre("started 1 cached 0", "finished 1 abort"));
  ExpectNothingLeft();
}

TEST_F(CancelTest, TwoStepsInFlight) {
  h_.Add(1, 4, 9);
  h_.Schedule();
  h_.Schedule();
  Cancel(1);
  h_.Commit();
  EXPECT_EQ(h_.scheduler.stats().blocks.num_held, 2);
  h_.Commit();
  ExpectNothingLeft();
}

TEST_F(CancelTest, Paused) {
  h_.Add(1, 4, 9);
  h_.Step();
  h_.scheduler.SetPaused({1, 0}, true);
  Cancel(1);
  ExpectNothingLeft();
}

TEST_F(CancelTest, TwiceAndUnknownAreIgnored) {
  h_.Add(1, 4, 9);
  h_.Schedule();
  Cancel(1);
  Cancel(1);
  Cancel(77);
  h_.scheduler.CancelSequence({1, 5}, FinishReason::kAbort);
  EXPECT_THAT(h_.TakeEvents(), ElementsAre("started 1 cached 0", "finished 1 abort"));
  h_.Commit();
  ExpectNothingLeft();
}

TEST_F(CancelTest, OneContinuationLeavesTheOthers) {
  h_.Add(1, 4, 3, [](Request* request) { request->sampling.n = 3; });
  h_.Step();
  h_.Step();
  h_.scheduler.CancelSequence({1, 1}, FinishReason::kError);
  h_.TakeEvents();
  EXPECT_EQ(h_.Step(), "1:[5,6)* 1/2:[4,5)*");
  h_.RunToEnd();
  ExpectNothingLeft();
}

TEST_F(CancelTest, TheFirstContinuationDoesNotTakeTheOthersAlong) {
  h_.Add(1, 40, 1, [](Request* request) { request->sampling.n = 2; });
  h_.Step();
  h_.scheduler.CancelSequence({1, 0}, FinishReason::kAbort);
  // The blocks that it had computed are cached; the other continuation goes on from there.
  EXPECT_EQ(h_.Step(), "1/1:[16,32)");
  h_.RunToEnd();
  ExpectNothingLeft();
}

TEST_F(CancelTest, AllContinuationsWithTheReason) {
  h_.Add(1, 4, 3, [](Request* request) { request->sampling.n = 2; });
  h_.Step();
  h_.TakeEvents();
  h_.scheduler.Cancel(1, FinishReason::kError);
  EXPECT_THAT(h_.TakeEvents(), ElementsAre("finished 1 error", "finished 1/1 error"));
  ExpectNothingLeft();
}

// Nothing of the step is kept, least of all in the prefix cache.
TEST_F(CancelTest, BrokenLogitsEndTheSequence) {
  h_.Add(1, 40, 9);
  EXPECT_EQ(h_.Schedule(), "1:[0,16)");
  h_.BreakLogits();
  h_.Commit();
  EXPECT_THAT(h_.TakeEvents(), ElementsAre("started 1 cached 0", "finished 1 error"));
  ExpectNothingLeft();
  h_.Add(2, 40, 1);
  h_.Step();
  EXPECT_THAT(h_.TakeEvents(), ElementsAre("started 2 cached 0"));
}

TEST_F(CancelTest, BrokenLogitsWithTheNextStepInFlight) {
  h_.Add(1, 4, 9);
  h_.Step();
  h_.TakeEvents();
  h_.Schedule();
  h_.BreakLogits();
  h_.Schedule();
  h_.Commit();
  EXPECT_THAT(h_.TakeEvents(), ElementsAre("finished 1 error"));
  EXPECT_EQ(h_.Schedule(), "");
  h_.Commit();
  ExpectNothingLeft();
}

TEST(CancelPreemptedTest, WhileItWaitsToResume) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  SchedulerHarness h(config);
  h.Add(1, 4, 9);
  h.Step();
  h.Add(2, 4, 1, [](Request* request) { request->priority = -1; });
  h.Schedule();
  h.scheduler.Cancel(1, FinishReason::kAbort);
  h.Commit();
  EXPECT_FALSE(h.scheduler.HasUnfinished());
}

TEST(CancelPreemptedTest, WhileItsStepIsStillInFlight) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  SchedulerHarness h(config);
  h.Add(1, 4, 9);
  h.Schedule();
  h.Add(2, 4, 1, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Schedule(), "");  // preempted; its row comes back with the step
  h.scheduler.Cancel(1, FinishReason::kAbort);
  h.Commit();
  EXPECT_EQ(h.Step(), "2:[0,4)*");
  EXPECT_FALSE(h.scheduler.HasUnfinished());
}

}  // namespace
}  // namespace quire
