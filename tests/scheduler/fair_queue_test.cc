// How flows share rows and steps, in small.
#include "scheduler/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/scheduler/harness.h"

namespace quire {
namespace {

auto InFlow(uint64_t flow, int32_t weight = 1, int32_t priority = 0) {
  return [=](Request* request) {
    request->flow = {flow, weight};
    request->priority = priority;
  };
}

SchedulerConfig OneRow() {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  return config;
}

// The requests in the order in which they first run.
std::vector<RequestId> OrderOfService(SchedulerHarness* h) {
  std::vector<RequestId> order;
  while (!h->Step().empty()) {
    for (const ScheduledSequence& sequence : h->last_output.sequences) {
      const RequestId id = sequence.key.request;
      if (std::find(order.begin(), order.end(), id) == order.end()) order.push_back(id);
    }
  }
  return order;
}

TEST(FairQueueTest, FlowsTakeTurns) {
  SchedulerHarness h(OneRow());
  for (RequestId id : {10, 11, 12}) h.Add(id, 8, 1, InFlow(1));
  for (RequestId id : {20, 21, 22}) h.Add(id, 8, 1, InFlow(2));
  EXPECT_THAT(OrderOfService(&h), testing::ElementsAre(10, 20, 11, 21, 12, 22));
}

TEST(FairQueueTest, ByWeight) {
  SchedulerHarness h(OneRow());
  for (RequestId id = 10; id < 16; ++id) h.Add(id, 8, 1, InFlow(1, 2));
  for (RequestId id = 20; id < 23; ++id) h.Add(id, 8, 1, InFlow(2));
  EXPECT_THAT(OrderOfService(&h), testing::ElementsAre(10, 20, 11, 12, 21, 13, 14, 22, 15));
}

TEST(FairQueueTest, TheLatestWeightCounts) {
  SchedulerHarness h(OneRow());
  h.Add(10, 8, 1, InFlow(1));
  for (RequestId id = 11; id < 16; ++id) h.Add(id, 8, 1, InFlow(1, 2));
  for (RequestId id = 20; id < 23; ++id) h.Add(id, 8, 1, InFlow(2));
  EXPECT_THAT(OrderOfService(&h), testing::ElementsAre(10, 20, 11, 12, 21, 13, 14, 22, 15));
}

TEST(FairQueueTest, GeneratedTokensAreCharged) {
  SchedulerHarness h(OneRow());
  h.Add(10, 4, 9, InFlow(1));  // 12 tokens are run: the last one drawn is not
  h.Add(11, 4, 1, InFlow(1));
  for (RequestId id : {20, 21, 22, 23, 24}) h.Add(id, 4, 1, InFlow(2));
  EXPECT_THAT(OrderOfService(&h), testing::ElementsAre(10, 20, 21, 22, 11, 23, 24));
}

TEST(FairQueueTest, CachedTokensAreNot) {
  SchedulerHarness h(OneRow());
  const auto cached = [](Request* request) {
    InFlow(1)(request);
    for (TokenId i = 0; i < 16; ++i) request->prompt[i] = i;
  };
  h.Add(10, 17, 1, cached);
  h.RunToEnd();
  for (RequestId id : {11, 12, 13, 14, 15}) h.Add(id, 17, 1, cached);  // one token each
  for (RequestId id : {20, 21, 22}) h.Add(id, 4, 1, InFlow(2));
  EXPECT_THAT(OrderOfService(&h), testing::ElementsAre(11, 20, 12, 13, 14, 15, 21, 22));
}

TEST(FairQueueTest, PrioritiesOrderAFlowsOwn) {
  SchedulerHarness h(OneRow());
  for (RequestId id : {10, 11, 12}) h.Add(id, 8, 1, InFlow(1));
  h.Add(20, 8, 1, InFlow(2));
  for (RequestId id : {21, 22}) h.Add(id, 8, 1, InFlow(2, 1, /*priority=*/-9));
  EXPECT_THAT(OrderOfService(&h), testing::ElementsAre(10, 21, 11, 22, 12, 20));
}

TEST(FairQueueTest, NobodySavesUpBySendingNothing) {
  SchedulerHarness h(OneRow());
  h.Add(20, 8, 1, InFlow(2));
  for (RequestId id = 10; id < 15; ++id) h.Add(id, 8, 1, InFlow(1));
  for (int i = 0; i < 4; ++i) h.Step();
  for (RequestId id : {21, 22, 23}) h.Add(id, 8, 1, InFlow(2));
  EXPECT_THAT(OrderOfService(&h), testing::ElementsAre(13, 21, 14, 22, 23));
}

TEST(FairQueueTest, WhoComesBackOwesWhatItHadBeforeOthers) {
  SchedulerHarness h(OneRow());
  for (RequestId id : {20, 21, 22, 23, 24}) h.Add(id, 4, 1, InFlow(2));
  h.Add(10, 12, 1, InFlow(1));
  h.Step();
  EXPECT_EQ(h.Step(), "10:[0,12)*");  // then flow 1 is gone
  EXPECT_EQ(h.scheduler.stats().num_flows, 2);
  h.Add(11, 4, 1, InFlow(1));
  EXPECT_THAT(OrderOfService(&h), testing::ElementsAre(21, 22, 23, 11, 24));
}

TEST(FairQueueTest, AnotherFlowsPromptsInProgressDoNotHoldOneUp) {
  SchedulerHarness h;  // two partial prefills, four rows, sixteen tokens
  for (RequestId id : {10, 11, 12, 13}) h.Add(id, 60, 1, InFlow(1));
  h.Step();
  EXPECT_EQ(h.scheduler.stats().num_running, 2);
  h.Add(20, 4, 1, InFlow(2));
  EXPECT_EQ(h.Step(), "10:[16,28) 20:[0,4)*");
  EXPECT_EQ(h.scheduler.stats().num_waiting, 2);
}

TEST(FairQueueTest, AFlowThatHasAllRowsMakesWayForOneThatHasNone) {
  SchedulerHarness h;
  h.Add(10, 4, 40, [](Request* request) {
    InFlow(1)(request);
    request->sampling.n = 9;
  });
  for (int i = 0; i < 5; ++i) h.Step();
  EXPECT_EQ(h.scheduler.stats().num_running, 4);
  for (RequestId id : {20, 21, 22}) h.Add(id, 4, 50, InFlow(2));
  h.Step();
  h.Step();
  EXPECT_EQ(h.scheduler.fairness().Find(2)->num_running, 1);
  // For the next one it has to wait until flow 1 has had what it computes again. Then both have two
  // rows, and the third of flow 2 waits for one of its own.
  for (int i = 0; i < 18; ++i) h.Step();
  EXPECT_EQ(h.scheduler.stats().num_preemptions, 2);
  EXPECT_EQ(h.scheduler.fairness().Find(1)->num_running, 2);
  EXPECT_EQ(h.scheduler.fairness().Find(2)->num_running, 2);
  h.RunToEnd();
  EXPECT_FALSE(h.scheduler.HasUnfinished());
}

// Flow 2 has had much more, and would wait until flow 1 has had as much.
TEST(FairQueueTest, WhoWasPassedOverForLongGetsARowWhateverItHad) {
  SchedulerConfig config = SmallScheduler();
  config.max_model_len = 256;
  SchedulerHarness h(config, SmallBlocks(512));
  h.Add(10, 4, 250, [](Request* request) {
    InFlow(1)(request);
    request->sampling.n = 9;
  });
  for (int i = 0; i < 5; ++i) h.Step();
  h.Add(20, 200, 1, InFlow(2));
  const FairQueue& fair = h.scheduler.fairness();
  while (fair.Find(2)->num_sequences > 0) ASSERT_NE(h.Step(), "");
  const VirtualTime had = fair.Find(2)->served;
  ASSERT_GT(had, fair.Find(1)->served + FlowState::kVirtualToken * 100);
  h.Add(21, 4, 1, InFlow(2));
  int64_t num_steps = 0;
  while (h.last_output.sequences.back().key.request != 21u) {
    ASSERT_NE(h.Step(), "");
    ASSERT_LE(++num_steps, config.max_num_passed + 1);
  }
  EXPECT_EQ(fair.num_claims(), 1);
  EXPECT_EQ(h.scheduler.stats().num_preemptions, 2);
  EXPECT_GE(fair.Find(1)->served, had);  // what it had saved up is forgotten
}

TEST(FairQueueTest, NotForOneOfItsOwnWithABetterPriorityElsewhere) {
  SchedulerHarness h(OneRow());
  h.Add(10, 4, 20, InFlow(1));
  h.Step();
  h.Add(20, 4, 2, InFlow(2, 1, /*priority=*/-100));
  EXPECT_EQ(h.Step(), "10:[4,5)*");  // its only row
  h.Add(11, 4, 2, InFlow(1, 1, /*priority=*/-1));
  h.Step();
  EXPECT_EQ(h.scheduler.stats().num_preemptions, 0);  // flow 2 is first in turn, but has no right
}

// Six blocks of four for two that need four each in the end.
TEST(FairQueueTest, WhoHasHadMoreMakesWayWhenBlocksRunOut) {
  SchedulerHarness h(SmallScheduler(), SmallBlocks(6));
  h.Add(10, 8, 8, InFlow(1));
  h.Add(20, 4, 12, InFlow(2));
  while (h.scheduler.stats().num_preemptions == 0) ASSERT_NE(h.Step(), "");
  EXPECT_EQ(h.last_output.sequences.back().key.request, 20u);
  EXPECT_EQ(h.scheduler.fairness().Find(1)->num_running, 0);
}

TEST(FairQueueTest, FlowsThatAreGoneAreForgotten) {
  SchedulerHarness h;
  for (RequestId id = 1; id <= 5000; ++id) {
    h.Add(id, 4, 1, InFlow(id));
    h.Step();
    h.TakeEvents();
    EXPECT_LE(h.scheduler.stats().num_flows, 2);
  }
  h.RunToEnd();
  EXPECT_EQ(h.scheduler.stats().num_flows, 0);
}

// Somebody heavy, whose turn never comes, holds start() back, and so others' debts in memory.
TEST(FairQueueTest, DebtsAreRememberedOfSoManyOnly) {
  FairQueue queue(/*max_num_passed=*/16);
  FlowState* behind = queue.Join({.id = 1, .weight = kMaxFlowWeight});
  for (uint64_t id = 10; id < 1010; ++id) {
    FlowState* flow = queue.Join({.id = id});
    queue.NoteWants(*behind);
    queue.Charge(flow, 5);
    queue.EndStep();
    queue.Leave(flow);
    queue.CheckInvariants();
  }
  EXPECT_EQ(queue.num_flows(), 1 + FairQueue::kMaxIdleFlows);
  queue.Leave(behind);
  EXPECT_EQ(queue.num_flows(), 0u);
}

TEST(FairQueueDeathTest, AWeightIsChecked) {
  FairQueue queue(/*max_num_passed=*/16);
  EXPECT_DEATH(queue.Join({.id = 1, .weight = 0}), "weight");
  EXPECT_DEATH(queue.Join({.id = 1, .weight = kMaxFlowWeight + 1}), "weight");
}

}  // namespace
}  // namespace quire
