// Scheduling step N+1 while step N runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LookaheadTest, ADecodeIsScheduledForATokenThatOnlyTheDeviceKnows) {
  SchedulerHarness h;
  h.Add(1, 4, 9);
  EXPECT_EQ(h.Schedule(), "1:[0,4)*");
  EXPECT_EQ(h.Schedule(), "1:[4,5)*");
  const ScheduledSequence& sequence = h.last_output.sequences[0];
  EXPECT_TRUE(sequence.input_on_device);
  EXPECT_EQ(sequence.tokens.size(), 4u);
  EXPECT_EQ(sequence.num_generated, 1);
  h.Commit();
  EXPECT_EQ(h.Schedule(), "1:[5,6)*");
}

TEST(LookaheadTest, ChunksOfAPromptFollowEachOther) {
  SchedulerHarness h;
  h.Add(1, 40, 2);
  EXPECT_EQ(h.Schedule(), "1:[0,16)");
  EXPECT_EQ(h.Schedule(), "1:[16,32)");
  EXPECT_FALSE(h.last_output.sequences[0].input_on_device);
  h.Commit();
  EXPECT_EQ(h.Schedule(), "1:[32,40)*");
}

TEST(LookaheadTest, NothingIsScheduledPastMaxTokens) {
  SchedulerHarness h;
  h.Add(1, 4, 2);
  EXPECT_EQ(h.Schedule(), "1:[0,4)*");
  EXPECT_EQ(h.Schedule(), "1:[4,5)*");
  h.Commit();
  EXPECT_EQ(h.Schedule(), "");
  h.Commit();
  EXPECT_FALSE(h.scheduler.HasUnfinished());
}

TEST(LookaheadTest, TheStepAfterAStopTokenIsDropped) {
  SchedulerHarness h;
  h.sample = [](const SequenceKey&, int64_t) { return 7; };
  h.Add(1, 4, 9, [](Request* request) { request->stop.eos_token_ids = {7}; });
  h.Schedule();
  h.Schedule();
  h.Commit();
  EXPECT_THAT(h.TakeEvents(), ElementsAre("started 1 cached 0", "token 1 7", "finished 1 stop 7"));
  EXPECT_EQ(h.scheduler.stats().blocks.num_held, 2);
  h.Commit();
  EXPECT_THAT(h.TakeEvents(), IsEmpty());
  EXPECT_EQ(h.scheduler.stats().blocks.num_held, 0);
}

TEST(LookaheadTest, APreemptedResultIsDroppedAndComputedAgain) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  SchedulerHarness h(config);
  h.Add(1, 4, 9);
  h.Schedule();
  h.Add(2, 4, 1, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Schedule(), "");
  h.Commit();
  EXPECT_THAT(h.TakeEvents(), ElementsAre("started 1 cached 0"));
  EXPECT_EQ(h.Step(), "2:[0,4)*");
  EXPECT_EQ(h.Step(), "1:[0,4)*");  // its block was never published
}

// Nine blocks; three sequences reach their fourth block in the same step, all in flight. While the
// blocks of the one that makes way are on their way back, nobody else is preempted for more.
TEST(LookaheadTest, OnePreemptionAtATimeIsEnough) {
  SchedulerHarness h(SmallScheduler(), SmallBlocks(9));
  for (RequestId id = 1; id <= 3; ++id) h.Add(id, 4, 12);
  h.Schedule();
  while (h.Schedule() != "") h.Commit();
  EXPECT_EQ(h.scheduler.stats().num_preemptions, 1);
  h.Commit();
  EXPECT_EQ(h.Schedule(), "1:[12,13)* 2:[12,13)*");
  EXPECT_EQ(h.scheduler.stats().num_preemptions, 1);
}

TEST(LookaheadTest, TokensAreTheSameWithAndWithout) {
  const auto run = [](int64_t lookahead) {
    SchedulerHarness h(SmallScheduler(), SmallBlocks(14));
    h.sample = [](const SequenceKey& key, int64_t num_generated) {
      return static_cast<TokenId>(1 + (key.request * 7 + num_generated * 3) % 11);
    };
    for (RequestId id = 1; id <= 6; ++id) {
      h.Add(id, 3 + 5 * id, 20, [](Request* request) { request->stop.stop_token_ids = {5}; });
    }
    std::vector<std::vector<std::string>> events(7);
    while (h.scheduler.HasUnfinished()) {
      const bool scheduled = !h.Schedule().empty();
      while (static_cast<int64_t>(h.in_flight.size()) > (scheduled ? lookahead : 0)) h.Commit();
      for (const std::string& event : h.TakeEvents()) {
        const size_t id = event[event.find(' ') + 1] - '0';
        if (event.rfind("started", 0) != 0) events[id].push_back(event);
      }
    }
    return events;
  };
  EXPECT_EQ(run(0), run(1));
}

TEST(LookaheadDeathTest, IsOneStepDeep) {
  SchedulerHarness h;
  h.Add(1, 4, 9);
  h.Schedule();
  h.Schedule();
  EXPECT_DEATH(h.Schedule(), "lookahead is one step");
}

}  // namespace
}  // namespace quire
