// Which sequences make way when blocks or rows run out, and what that costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/scheduler/harness.h"

namespace quire {
namespace {

using testing::Contains;
using testing::ElementsAre;

// Runs until `num` preemptions have happened.
void StepUntilPreempted(SchedulerHarness* h, int64_t num) {
  for (int i = 0; i < 100 && h->scheduler.stats().num_preemptions < num; ++i) h->Step();
  ASSERT_EQ(h->scheduler.stats().num_preemptions, num);
}

// Six blocks of four for two that need four each in the end.
class TightPoolTest : public testing::Test {
 protected:
  TightPoolTest() : h_(SmallScheduler(), SmallBlocks(6)) {}
  SchedulerHarness h_;
};

TEST_F(TightPoolTest, TheYoungestMakesWay) {
  h_.Add(1, 4, 12);
  h_.Add(2, 4, 12);
  StepUntilPreempted(&h_, 1);
  EXPECT_EQ(h_.last_output.sequences.size(), 1u);
  EXPECT_EQ(h_.last_output.sequences[0].key.request, 1u);
  EXPECT_EQ(h_.scheduler.stats().num_waiting, 1);
}

TEST_F(TightPoolTest, ThePreemptedOneResumesWithItsTokensAndRepeatsNoEvent) {
  h_.Add(1, 4, 12);
  h_.Add(2, 4, 12);
  h_.RunToEnd();
  std::vector<std::string> of_two;
  for (const std::string& event : h_.TakeEvents()) {
    if (event.find(" 2 ") != std::string::npos || event.find(" 50201") != std::string::npos) {
      of_two.push_back(event);
    }
  }
  std::vector<std::string> expected = {"started 2 cached 0"};
  for (int i = 0; i < 12; ++i) expected.push_back(absl::StrCat("token 2 ", 502000 + i));
  expected.push_back("finished 2 length");
  EXPECT_EQ(of_two, expected);
  EXPECT_GT(h_.scheduler.stats().num_preemptions, 0);
}

// An observer that counts what was added and what changes knows the queue, and the preempted
// requests in it.
TEST_F(TightPoolTest, WhoObservesTheQueueKnowsWhatIsInIt) {
  QueueLoad observed;
  int64_t num_returned = 0;
  h_.scheduler.SetQueueObserver([&](const QueueChange& change) {
    const int sign = change.enters ? 1 : -1;
    observed.num_places += sign * change.load.num_places;
    observed.num_tokens += sign * change.load.num_tokens;
    num_returned += change.enters ? 1 : 0;
  });
  for (RequestId id = 1; id <= 3; ++id) h_.Add(id, 4, 12);
  observed.num_places += 3;
  observed.num_tokens += 12;
  h_.scheduler.Cancel(3, FinishReason::kAbort);  // while it waits
  while (h_.scheduler.HasUnfinished()) {
    h_.Step();
    EXPECT_EQ(observed.num_places, h_.scheduler.queue().all().num_places);
    EXPECT_EQ(observed.num_tokens, h_.scheduler.queue().all().num_tokens);
  }
  EXPECT_EQ(num_returned, h_.scheduler.stats().num_preemptions);
  EXPECT_GT(num_returned, 0);
}

TEST_F(TightPoolTest, AWorsePriorityMakesWayThoughItIsOlder) {
  h_.Add(1, 4, 12, [](Request* request) { request->priority = 1; });
  h_.Add(2, 4, 12);
  StepUntilPreempted(&h_, 1);
  EXPECT_EQ(h_.last_output.sequences[0].key.request, 2u);
}

TEST_F(TightPoolTest, APausedOneMakesWayFirst) {
  h_.Add(1, 4, 12);
  h_.Add(2, 4, 12);
  for (int i = 0; i < 6; ++i) h_.Step();  // three blocks each
  h_.scheduler.SetPaused({1, 0}, true);
  StepUntilPreempted(&h_, 1);
  EXPECT_EQ(h_.last_output.sequences[0].key.request, 2u);
}

TEST_F(TightPoolTest, ResumingRunsPromptAndGeneratedTokensAgainButForCachedBlocks) {
  h_.Add(1, 4, 12);
  h_.Add(2, 4, 12);
  StepUntilPreempted(&h_, 1);
  std::string step;
  while (step.find("2:") == std::string::npos) step = h_.Step();
  const auto& two = h_.last_output.sequences.back();
  EXPECT_EQ(two.key.request, 2u);
  EXPECT_TRUE(two.row_is_new);
  EXPECT_EQ(two.first_new_block, 0);
  EXPECT_EQ(two.epoch, 1u);
  EXPECT_EQ(two.num_samples, 1);
  EXPECT_EQ(two.num_generated, two.start + two.num_new - 4);
}

TEST(PreemptionTest, FinishedEventsCountPreemptions) {
  SchedulerHarness h(SmallScheduler(), SmallBlocks(6));
  h.Add(1, 4, 12);
  h.Add(2, 4, 12);
  int32_t num_preemptions = 0;
  for (int i = 0; i < 100; ++i) {
    h.Step();
    for (const SequenceEvent& event : h.scheduler.TakeEvents()) {
      if (event.kind == SequenceEvent::Kind::kFinished) num_preemptions += event.num_preemptions;
    }
  }
  EXPECT_EQ(num_preemptions, h.scheduler.stats().num_preemptions);
  EXPECT_GT(num_preemptions, 0);
}

TEST(PreemptionTest, ABetterPriorityTakesARowWhenThereIsNone) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 2;
  SchedulerHarness h(config);
  h.Add(1, 4, 9);
  h.Add(2, 4, 9);
  h.Step();
  h.Add(3, 4, 1, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Step(), "1:[4,5)* 3:[0,4)*");
  EXPECT_EQ(h.Step(), "1:[5,6)* 2:[4,5)*");  // back, its prompt's block still cached
}

TEST(PreemptionTest, AnEqualPriorityWaitsForARow) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  SchedulerHarness h(config);
  h.Add(1, 4, 3);
  h.Step();
  h.Add(2, 4, 1);
  EXPECT_EQ(h.Step(), "1:[4,5)*");
  EXPECT_EQ(h.Step(), "1:[5,6)*");
  EXPECT_EQ(h.Step(), "2:[0,4)*");
}

TEST(PreemptionTest, APausedOneGivesItsRowToAnybody) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  SchedulerHarness h(config);
  h.Add(1, 4, 3);
  h.Step();
  h.scheduler.SetPaused({1, 0}, true);
  h.Add(2, 4, 1);
  EXPECT_EQ(h.Step(), "2:[0,4)*");
}

TEST(PreemptionTest, ABetterPriorityWithRoomPreemptsNobody) {
  SchedulerHarness h;
  h.Add(1, 4, 9);
  h.Step();
  h.Add(2, 4, 1, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Step(), "1:[4,5)* 2:[0,4)*");
  EXPECT_EQ(h.scheduler.stats().num_preemptions, 0);
}

TEST(PreemptionTest, NobodyIsPreemptedWhenThatWouldNotBeEnough) {
  SchedulerHarness h(SmallScheduler(), SmallBlocks(10));
  h.Add(1, 16, 9, [](Request* request) { request->priority = -2; });
  h.Add(2, 4, 4, [](Request* request) { request->priority = 1; });
  EXPECT_EQ(h.Step(), "1:[0,16)*");
  EXPECT_EQ(h.Step(), "1:[16,17)* 2:[0,4)*");
  h.Add(3, 32, 2, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Step(), "1:[17,18)* 2:[4,5)*");
  EXPECT_EQ(h.scheduler.stats().num_preemptions, 0);
}

// Progress: the best-ranked one always runs, however tight the pool.
TEST(PreemptionTest, TheBestRankedIsNeverPreempted) {
  SchedulerHarness h(SmallScheduler(), SmallBlocks(10));
  for (RequestId id = 1; id <= 6; ++id) h.Add(id, 3, 36);
  EXPECT_EQ(h.Step().substr(0, 8), "1:[0,3)*");
  for (int i = 3; i < 38; ++i) {
    EXPECT_THAT(h.Step(), testing::StartsWith(absl::StrCat("1:[", i, ",", i + 1, ")*")));
  }
  h.RunToEnd();
  EXPECT_FALSE(h.scheduler.HasUnfinished());
  EXPECT_GT(h.scheduler.stats().num_preemptions, 0);
}

TEST(PreemptionTest, PromptLogprobsAreNotRepeatedAfterPreemption) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  SchedulerHarness h(config);
  h.Add(1, 30, 2, [](Request* request) { request->sampling.prompt_logprobs = 0; });
  EXPECT_EQ(h.Step(), "1:[0,16)");
  h.Add(2, 4, 1, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Step(), "2:[0,4)*");
  h.TakeEvents();
  EXPECT_EQ(h.Step(), "1:[0,16)");  // from the start: the rest is still owed
  EXPECT_THAT(h.TakeEvents(), testing::IsEmpty());
  EXPECT_EQ(h.Step(), "1:[16,30)*");
  EXPECT_THAT(h.TakeEvents(), Contains("prompt 1 13"));
}

}  // namespace
}  // namespace quire
