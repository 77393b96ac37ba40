// What a step consists of, and what comes out of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ScheduleTest, NothingToDoIsAnEmptyStep) {
  SchedulerHarness h;
  EXPECT_EQ(h.Schedule(), "");
  EXPECT_FALSE(h.scheduler.HasUnfinished());
}

TEST(ScheduleTest, ARequestRunsFromPromptToLastToken) {
  SchedulerHarness h;
  h.Add(1, 5, 3);
  EXPECT_TRUE(h.scheduler.HasUnfinished());
  EXPECT_EQ(h.Step(), "1:[0,5)*");
  EXPECT_EQ(h.Step(), "1:[5,6)*");
  EXPECT_EQ(h.Step(), "1:[6,7)*");
  EXPECT_EQ(h.Step(), "");
  EXPECT_FALSE(h.scheduler.HasUnfinished());
  EXPECT_EQ(h.scheduler.stats().blocks.num_held, 0);
  EXPECT_THAT(h.TakeEvents(), ElementsAre("started 1 cached 0", "token 1 501000", "token 1 501001",
                                          "token 1 501002", "finished 1 length"));
}

TEST(ScheduleTest, ALongPromptIsRunInChunks) {
  SchedulerHarness h;
  h.Add(1, 40, 2);
  EXPECT_EQ(h.Step(), "1:[0,16)");
  EXPECT_EQ(h.Step(), "1:[16,32)");
  EXPECT_EQ(h.Step(), "1:[32,40)*");
  EXPECT_EQ(h.Step(), "1:[40,41)*");
}

TEST(ScheduleTest, DecodesComeFirstAndPromptsFillTheRest) {
  SchedulerHarness h;
  h.Add(1, 4, 9);
  h.Add(2, 4, 9);
  EXPECT_EQ(h.Step(), "1:[0,4)* 2:[0,4)*");
  h.Add(3, 40, 9);
  EXPECT_EQ(h.Step(), "1:[4,5)* 2:[4,5)* 3:[0,14)");
  EXPECT_EQ(h.last_output.num_tokens, 16);
}

TEST(ScheduleTest, AShortPromptIsNotStuckBehindALongOne) {
  SchedulerHarness h;
  h.Add(1, 60, 1);
  EXPECT_EQ(h.Step(), "1:[0,16)");
  h.Add(2, 3, 1);
  EXPECT_EQ(h.Step(), "1:[16,29) 2:[0,3)*");
}

TEST(ScheduleTest, TheFirstStepOfARowShowsAllBlocksLaterOnesTheNewOnes) {
  SchedulerHarness h;
  h.Add(1, 4, 9);
  h.Schedule();
  {
    const ScheduledSequence& sequence = h.last_output.sequences[0];
    EXPECT_TRUE(sequence.row_is_new);
    EXPECT_EQ(sequence.first_new_block, 0);
    EXPECT_EQ(sequence.block_tables[0].size(), 1u);
    EXPECT_EQ(sequence.num_generated, 0);
    EXPECT_EQ(sequence.num_prompt_tokens, 4);
  }
  h.Commit();
  h.Schedule();
  {
    const ScheduledSequence& sequence = h.last_output.sequences[0];
    EXPECT_FALSE(sequence.row_is_new);
    EXPECT_EQ(sequence.first_new_block, 1);
    EXPECT_EQ(sequence.block_tables[0].size(), 2u);
    EXPECT_EQ(sequence.num_generated, 1);
    EXPECT_EQ(sequence.tokens.size(), 5u);
    EXPECT_FALSE(sequence.input_on_device);
  }
}

TEST(ScheduleTest, AStopTokenIsDeliveredAndEndsTheSequence) {
  SchedulerHarness h;
  h.sample = [](const SequenceKey&, int64_t num_generated) { return num_generated == 1 ? 7 : 40; };
  h.Add(1, 4, 9, [](Request* request) { request->stop.eos_token_ids = {7}; });
  h.RunToEnd();
  EXPECT_THAT(h.TakeEvents(),
              ElementsAre("started 1 cached 0", "token 1 40", "token 1 7", "finished 1 stop 7"));
}

TEST(ScheduleTest, MaxTokensIsCappedToTheModelLength) {
  SchedulerHarness h;
  h.Add(1, 60, 1000);
  h.RunToEnd();
  const auto events = h.TakeEvents();
  EXPECT_EQ(events.size(), 1u + 4u + 1u);
  EXPECT_EQ(events.back(), "finished 1 length");
}

TEST(ScheduleTest, ASecondRequestStartsWithTheCachedPrefix) {
  SchedulerHarness h;
  h.Add(1, 10, 1);
  h.RunToEnd();
  h.TakeEvents();
  h.Add(2, 12, 1, [](Request* request) {
    for (TokenId i = 0; i < 10; ++i) request->prompt[i] = 1000 + i;
  });
  EXPECT_EQ(h.Step(), "2:[8,12)*");
  EXPECT_EQ(h.TakeEvents()[0], "started 2 cached 8");
}

TEST(ScheduleTest, OtherContinuationsWaitForThePromptAndAttachIt) {
  SchedulerHarness h;
  h.Add(1, 20, 2, [](Request* request) { request->sampling.n = 3; });
  EXPECT_EQ(h.Step(), "1:[0,16)");
  EXPECT_EQ(h.Step(), "1:[16,20)*");
  EXPECT_EQ(h.Step(), "1:[20,21)* 1/1:[16,20)* 1/2:[16,20)*");
  EXPECT_EQ(h.Step(), "1/1:[20,21)* 1/2:[20,21)*");
  EXPECT_FALSE(h.scheduler.HasUnfinished());
}

TEST(ScheduleTest, WithoutPrefixCachingContinuationsRunSideBySide) {
  BlockManagerConfig blocks = SmallBlocks();
  blocks.enable_prefix_caching = false;
  SchedulerHarness h(SmallScheduler(), blocks);
  h.Add(1, 5, 2, [](Request* request) { request->sampling.n = 2; });
  EXPECT_EQ(h.Step(), "1:[0,5)* 1/1:[0,5)*");
}

TEST(ScheduleTest, OthersOvertakeContinuationsThatWaitForTheirPrompt) {
  SchedulerHarness h;
  h.Add(1, 20, 2, [](Request* request) { request->sampling.n = 2; });
  h.Add(2, 4, 2);
  EXPECT_EQ(h.Step(), "1:[0,12) 2:[0,4)*");
}

TEST(ScheduleTest, PromptLogprobsComeFromRunningTheWholePromptOnce) {
  SchedulerHarness h;
  h.Add(1, 20, 1);
  h.RunToEnd();
  h.TakeEvents();
  h.Add(2, 20, 1, [](Request* request) {
    for (TokenId i = 0; i < 20; ++i) request->prompt[i] = 1000 + i;
    request->sampling.prompt_logprobs = 1;
    request->sampling.n = 2;
  });
  EXPECT_EQ(h.Step(), "2:[0,16)");
  EXPECT_EQ(h.Step(), "2:[16,20)*");
  EXPECT_EQ(h.Step(), "2/1:[16,20)*");  // the first one reported them
  EXPECT_THAT(h.TakeEvents(),
              ElementsAre("started 2 cached 0", "prompt 2 16", "prompt 2 3", "token 2 502000",
                          "finished 2 length", "started 2/1 cached 16", "token 2/1 502100",
                          "finished 2/1 length"));
}

TEST(ScheduleTest, APausedSequenceKeepsItsBlocksAndDoesNotRun) {
  SchedulerHarness h;
  h.Add(1, 4, 9);
  h.Step();
  h.scheduler.SetPaused({1, 0}, true);
  EXPECT_EQ(h.Schedule(), "");
  EXPECT_EQ(h.scheduler.stats().num_paused, 1);
  EXPECT_EQ(h.scheduler.stats().blocks.num_held, 1);
  h.scheduler.SetPaused({1, 0}, false);
  EXPECT_EQ(h.Step(), "1:[4,5)*");
}

TEST(ScheduleTest, WhoIsPausedWhileWaitingIsOvertaken) {
  SchedulerHarness h;
  h.Add(1, 4, 1);
  h.Add(2, 4, 1);
  h.scheduler.SetPaused({1, 0}, true);
  EXPECT_EQ(h.Step(), "2:[0,4)*");
  EXPECT_EQ(h.Step(), "");
  h.scheduler.SetPaused({1, 0}, false);
  EXPECT_EQ(h.Step(), "1:[0,4)*");
}

// Cached blocks a model with a window attaches are few, and what slides out is given back.
TEST(ScheduleTest, WindowedGroupsHoldTheirWindowOnly) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_batched_tokens = 4;
  BlockManagerConfig blocks = SmallBlocks();
  blocks.groups = {{.sliding_window = 4}};
  SchedulerHarness h(config, blocks);
  h.Add(1, 40, 20);
  while (h.Step() != "1:[50,51)*") EXPECT_LE(h.scheduler.stats().blocks.num_held, 3);
}

TEST(ScheduleTest, StatsFollowTheQueues) {
  SchedulerHarness h;
  for (RequestId id = 1; id <= 6; ++id) h.Add(id, 3, 9);
  EXPECT_EQ(h.scheduler.stats().num_waiting, 6);
  EXPECT_EQ(h.scheduler.stats().num_waiting_tokens, 18);
  h.Step();
  EXPECT_EQ(h.scheduler.stats().num_running, 4);
  EXPECT_EQ(h.scheduler.stats().num_waiting, 2);
  EXPECT_EQ(h.scheduler.stats().num_waiting_tokens, 6);
  EXPECT_THAT(h.in_flight, IsEmpty());
}

TEST(ScheduleDeathTest, StepsAreCommittedInOrderAndWhole) {
  SchedulerHarness h;
  h.Add(1, 4, 9);
  h.Schedule();
  StepResult wrong_step;
  wrong_step.step = 7;
  EXPECT_DEATH(h.scheduler.Commit(std::move(wrong_step)), "in the order");
  EXPECT_DEATH(h.scheduler.Commit(StepResult{}), "sequences.size");
}

}  // namespace
}  // namespace quire
