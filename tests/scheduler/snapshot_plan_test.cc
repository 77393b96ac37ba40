#include "scheduler/snapshot_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr SnapshotPolicy kNoIntervals = {.grid = 64, .interval = 128, .max_per_sequence = 0};
constexpr SnapshotPolicy kIntervals = {.grid = 64, .interval = 128, .max_per_sequence = 4};

TEST(SnapshotPlanTest, APromptKeepsItsLastPlaceOnTheGrid) {
  EXPECT_THAT(PlanSnapshots(kNoIntervals, {.num_prompt_tokens = 200, .num_new = 200}),
              ElementsAre(192));
}

// The same prompt again must compute a token; the next turn need not.
TEST(SnapshotPlanTest, APromptThatEndsOnTheGridKeepsTheOneBeforeToo) {
  EXPECT_THAT(PlanSnapshots(kNoIntervals, {.num_prompt_tokens = 192, .num_new = 192}),
              ElementsAre(128, 192));
}

TEST(SnapshotPlanTest, AShortPromptKeepsNothing) {
  EXPECT_THAT(PlanSnapshots(kIntervals, {.num_prompt_tokens = 63, .num_new = 63}), IsEmpty());
  EXPECT_THAT(PlanSnapshots(kIntervals, {.num_prompt_tokens = 64, .num_new = 64}), ElementsAre(64));
}

TEST(SnapshotPlanTest, AStepKeepsWhatLiesInIt) {
  EXPECT_THAT(PlanSnapshots(kNoIntervals, {.num_prompt_tokens = 200, .start = 100, .num_new = 91}),
              IsEmpty());
  EXPECT_THAT(PlanSnapshots(kNoIntervals, {.num_prompt_tokens = 200, .start = 100, .num_new = 92}),
              ElementsAre(192));
  EXPECT_THAT(PlanSnapshots(kNoIntervals, {.num_prompt_tokens = 200, .start = 192, .num_new = 8}),
              IsEmpty());
}

TEST(SnapshotPlanTest, ItIsKeptWhereTheSequencePartsFromEarlierOnes) {
  EXPECT_THAT(PlanSnapshots(kNoIntervals,
                            {.num_prompt_tokens = 300, .num_shared_tokens = 144, .num_new = 300}),
              ElementsAre(256, 128));
  // A sequence that began there has it already.
  EXPECT_THAT(
      PlanSnapshots(
          kNoIntervals,
          {.num_prompt_tokens = 300, .num_shared_tokens = 128, .start = 128, .num_new = 172}),
      ElementsAre(256));
}

TEST(SnapshotPlanTest, PlacesThatCoincideAreNamedOnce) {
  EXPECT_THAT(PlanSnapshots(kIntervals,
                            {.num_prompt_tokens = 257, .num_shared_tokens = 256, .num_new = 257}),
              ElementsAre(256, 128));
}

TEST(SnapshotPlanTest, AnswersAreKeptAtIntervals) {
  const auto decode = [](int64_t start) {
    return PlanSnapshots(kIntervals, {.num_prompt_tokens = 10, .start = start, .num_new = 1});
  };
  EXPECT_THAT(decode(126), IsEmpty());
  EXPECT_THAT(decode(127), ElementsAre(128));
  EXPECT_THAT(decode(128), IsEmpty());
  EXPECT_THAT(decode(191), IsEmpty());  // on the grid only
}

TEST(SnapshotPlanTest, IntervalsOfALongPromptDouble) {
  EXPECT_THAT(PlanSnapshots(kIntervals, {.num_prompt_tokens = 530, .num_new = 530}),
              UnorderedElementsAre(512, 128, 256, 384));
  EXPECT_THAT(PlanSnapshots(kIntervals, {.num_prompt_tokens = 650, .num_new = 650}),
              UnorderedElementsAre(640, 256, 512));
  // The whole prompt counts, not the step.
  EXPECT_THAT(PlanSnapshots(kIntervals, {.num_prompt_tokens = 650, .start = 300, .num_new = 100}),
              IsEmpty());
}

TEST(SnapshotPlanTest, WhatServesTheNextTurnComesFirst) {
  EXPECT_EQ(PlanSnapshots(kIntervals, {.num_prompt_tokens = 530, .num_new = 530})[0], 512);
}

TEST(SnapshotPlanTest, WithoutRoomForIntervalsThereAreNone) {
  EXPECT_THAT(PlanSnapshots(kNoIntervals, {.num_prompt_tokens = 10, .start = 127, .num_new = 1}),
              IsEmpty());
}

}  // namespace
}  // namespace quire
