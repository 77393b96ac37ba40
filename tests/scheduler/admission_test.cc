// Who is let in: refusals, queue bounds, order, reserved room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/queue_bounds.h"
#include "tests/scheduler/harness.h"

namespace quire {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

absl::Status AddTo(SchedulerHarness* h, const std::shared_ptr<Request>& request) {
  return h->TryAdd(request);
}

void ExpectRefused(const absl::Status& status, absl::StatusCode code, const std::string& why) {
  EXPECT_EQ(status.code(), code);
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(AdmissionTest, AnEmptyPromptIsRefused) {
  SchedulerHarness h;
  ExpectRefused(AddTo(&h, h.MakeRequest(1, 0, 5)), absl::StatusCode::kInvalidArgument,
                "the prompt has no tokens");
}

TEST(AdmissionTest, NoTokensToGenerateIsRefused) {
  SchedulerHarness h;
  ExpectRefused(AddTo(&h, h.MakeRequest(1, 5, 0)), absl::StatusCode::kInvalidArgument,
                "max_tokens is 0");
}

TEST(AdmissionTest, APromptThatLeavesNoRoomToGenerateIsRefusedWithTheLimit) {
  SchedulerHarness h;
  ExpectRefused(AddTo(&h, h.MakeRequest(1, 64, 1)), absl::StatusCode::kInvalidArgument,
                "has 64 tokens, but the model's maximum length is 64");
  EXPECT_TRUE(AddTo(&h, h.MakeRequest(2, 63, 1)).ok());
}

TEST(AdmissionTest, MoreThanThePoolHoldsIsRefusedWithTheLimit) {
  SchedulerHarness h(SmallScheduler(), SmallBlocks(/*num_blocks=*/5));
  ExpectRefused(AddTo(&h, h.MakeRequest(1, 15, 6)), absl::StatusCode::kInvalidArgument,
                "need 6 KV cache blocks, but the cache has 5; lower max_tokens");
  EXPECT_TRUE(AddTo(&h, h.MakeRequest(2, 15, 5)).ok());
  EXPECT_EQ(h.RunToEnd(), 5);
}

TEST(AdmissionTest, MoreContinuationsThanTheQueueHoldsAreRefused) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_queued_reqs = 8;
  SchedulerHarness h(config);
  auto request = h.MakeRequest(1, 4, 2);
  request->sampling.n = 9;
  ExpectRefused(AddTo(&h, request), absl::StatusCode::kInvalidArgument, "n is 9");
  request->sampling.n = 0;
  ExpectRefused(AddTo(&h, request), absl::StatusCode::kInvalidArgument, "n is 0");
}

TEST(AdmissionTest, MoreContinuationsThanRowsTakeTurns) {
  SchedulerHarness h;
  h.Add(1, 4, 2, [](Request* request) { request->sampling.n = 9; });
  h.RunToEnd();
  EXPECT_FALSE(h.scheduler.HasUnfinished());
  EXPECT_EQ(h.TakeEvents().size(), 9u * 4);
}

TEST(AdmissionTest, AFullQueueRefusesForNowAndKeepsWhatItHas) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_queued_reqs = 2;
  SchedulerHarness h(config);
  h.Add(1, 4, 1);
  h.Add(2, 4, 1);
  ExpectRefused(AddTo(&h, h.MakeRequest(3, 4, 1)), absl::StatusCode::kResourceExhausted,
                "2 of 2 requests");
  EXPECT_EQ(h.Step(), "1:[0,4)* 2:[0,4)*");
  EXPECT_TRUE(AddTo(&h, h.MakeRequest(3, 4, 1)).ok());
}

TEST(AdmissionTest, TheQueueIsBoundedInPromptTokensToo) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_queued_tokens = 50;
  SchedulerHarness h(config);
  h.Add(1, 30, 1);
  ExpectRefused(AddTo(&h, h.MakeRequest(2, 21, 1)), absl::StatusCode::kResourceExhausted,
                "30 of 50 prompt tokens");
  EXPECT_TRUE(AddTo(&h, h.MakeRequest(3, 20, 1)).ok());
}

// Load generators begin like this: with a thousand prompts from one client, before any has run.
TEST(AdmissionTest, AThousandLongRequestsOfOneClientAreTakenAtOnce) {
  const SchedulerConfig config;
  QueueBounds bounds(config.max_num_queued_reqs, config.max_num_queued_tokens);
  Request request;
  request.flow.id = 1;
  request.prompt.resize(8192);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(bounds.Check(request).ok()) << bounds.Check(request) << " after " << i;
    bounds.Enter(request.flow, LoadOf(request));
  }
}

TEST(AdmissionTest, EqualsAreServedInOrderOfArrival) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  SchedulerHarness h(config);
  for (RequestId id : {5, 3, 4}) h.Add(id, 4, 1);
  EXPECT_EQ(h.Step(), "5:[0,4)*");
  EXPECT_EQ(h.Step(), "3:[0,4)*");
  EXPECT_EQ(h.Step(), "4:[0,4)*");
}

TEST(AdmissionTest, ALowerPriorityNumberGoesFirst) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  SchedulerHarness h(config);
  h.Add(1, 4, 1, [](Request* request) { request->priority = 1; });
  h.Add(2, 4, 1);
  h.Add(3, 4, 1, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Step(), "3:[0,4)*");
  EXPECT_EQ(h.Step(), "2:[0,4)*");
  EXPECT_EQ(h.Step(), "1:[0,4)*");
}

TEST(AdmissionTest, ShortPromptsAreAdmittedWhileTheyFitIntoTheStep) {
  SchedulerHarness h;  // two partial prefills, four rows, sixteen tokens
  for (RequestId id = 1; id <= 4; ++id) h.Add(id, 4, 1);
  EXPECT_EQ(h.Step(), "1:[0,4)* 2:[0,4)* 3:[0,4)* 4:[0,4)*");
}

TEST(AdmissionTest, OnlySoManyLongPromptsAreInProgress) {
  SchedulerHarness h;
  for (RequestId id = 1; id <= 4; ++id) h.Add(id, 40, 1);
  h.Step();
  EXPECT_EQ(h.scheduler.stats().num_running, 2);
  EXPECT_EQ(h.scheduler.stats().num_waiting, 2);
}

TEST(AdmissionTest, LongPromptsInProgressDoNotHoldUpABetterPriority) {
  SchedulerHarness h;
  h.Add(1, 60, 1);
  h.Add(2, 60, 1);
  h.Step();
  h.Add(3, 40, 1, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Step(), "3:[0,16)");
}

// Twelve blocks: the first needs ten in the end and has four yet.
TEST(AdmissionTest, BlocksThatARunningPromptStillNeedsAreNotGivenAway) {
  SchedulerHarness h(SmallScheduler(), SmallBlocks(12));
  h.Add(1, 38, 2);
  EXPECT_EQ(h.Step(), "1:[0,16)");
  h.Add(2, 12, 2);
  EXPECT_EQ(h.Step(), "1:[16,32)");
  EXPECT_EQ(h.Step(), "1:[32,38)*");
  EXPECT_EQ(h.Step(), "1:[38,39)*");
  EXPECT_EQ(h.Step(), "2:[0,12)*");
  EXPECT_EQ(h.scheduler.stats().num_preemptions, 0);
}

TEST(AdmissionTest, NobodyOvertakesWhoDoesNotFitYet) {
  SchedulerHarness h(SmallScheduler(), SmallBlocks(12));
  h.Add(1, 30, 9);
  h.Step();
  h.Add(2, 30, 1);
  h.Add(3, 2, 1);
  EXPECT_EQ(h.Step(), "1:[16,30)*");
  EXPECT_EQ(h.scheduler.stats().num_waiting, 2);
}

// The waiting request shares 4 of its 5 blocks with the one that runs.
TEST(AdmissionTest, SharedBlocksNeedNoRoom) {
  SchedulerHarness h(SmallScheduler(), SmallBlocks(9));
  h.Add(1, 17, 4);
  h.Step();
  h.Step();
  h.Add(2, 19, 1, [](Request* request) {
    for (TokenId i = 0; i < 17; ++i) request->prompt[i] = 1000 + i;
  });
  EXPECT_EQ(h.Step(), "1:[17,18)* 2:[16,19)*");
}

TEST(AdmissionTest, ARefusalLeavesNoTrace) {
  SchedulerHarness h;
  EXPECT_FALSE(AddTo(&h, h.MakeRequest(1, 64, 1)).ok());
  EXPECT_FALSE(h.scheduler.HasUnfinished());
  EXPECT_EQ(h.scheduler.stats().num_waiting, 0);
  EXPECT_THAT(h.TakeEvents(), IsEmpty());
}

TEST(AdmissionDeathTest, AnIdInUseAborts) {
  SchedulerHarness h;
  h.Add(1, 4, 1);
  EXPECT_DEATH(h.Add(1, 4, 1), "request id 1 is in use");
}

TEST(AdmissionDeathTest, AStepMustHaveATokenForEverybody) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_batched_tokens = config.max_num_seqs - 1;
  EXPECT_DEATH(SchedulerHarness{config}, "max_num_batched_tokens");
}

}  // namespace
}  // namespace quire
