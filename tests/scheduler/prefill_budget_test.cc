#include "scheduler/prefill_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

using testing::ElementsAre;

std::vector<int64_t> Grants(int64_t budget, int64_t max_partial,
                            std::vector<PrefillDemand> demands) {
  DividePrefillBudget(budget, max_partial, absl::MakeSpan(demands));
  std::vector<int64_t> grants;
  for (const PrefillDemand& demand : demands) grants.push_back(demand.num_granted);
  return grants;
}

TEST(PrefillBudgetTest, OnePromptGetsWhatItWantsOrAllThereIs) {
  EXPECT_THAT(Grants(100, 4, {{0, 30}}), ElementsAre(30));
  EXPECT_THAT(Grants(100, 4, {{0, 300}}), ElementsAre(100));
}

TEST(PrefillBudgetTest, AllGetWhatTheyWantWhenItFits) {
  EXPECT_THAT(Grants(100, 1, {{0, 30}, {0, 50}, {0, 20}}), ElementsAre(30, 50, 20));
}

TEST(PrefillBudgetTest, AShortPromptIsNotStuckBehindALongOne) {
  EXPECT_THAT(Grants(100, 4, {{0, 5000}, {0, 20}}), ElementsAre(80, 20));
}

TEST(PrefillBudgetTest, TheFirstIsPromisedItsShareAgainstManyShortOnes) {
  EXPECT_THAT(Grants(100, 4, {{0, 5000}, {0, 60}, {0, 60}, {0, 60}}), ElementsAre(25, 60, 15, 0));
}

TEST(PrefillBudgetTest, TheSmallestBudgetGoesToTheFirst) {
  EXPECT_THAT(Grants(1, 4, {{0, 5000}, {0, 2}}), ElementsAre(1, 0));
}

TEST(PrefillBudgetTest, EqualPromptsAreServedOneAfterTheOther) {
  EXPECT_THAT(Grants(100, 4, {{0, 60}, {0, 60}, {0, 60}}), ElementsAre(60, 40, 0));
}

TEST(PrefillBudgetTest, ABetterPriorityGoesBeforeAShorterPrompt) {
  EXPECT_THAT(Grants(100, 2, {{-1, 90}, {0, 20}}), ElementsAre(90, 10));
}

TEST(PrefillBudgetTest, NothingToDivideOrNobodyToServe) {
  EXPECT_THAT(Grants(0, 4, {{0, 10}}), ElementsAre(0));
  EXPECT_THAT(Grants(10, 4, {}), ElementsAre());
}

PrefillDemand OfFlow(uint64_t flow, int64_t flow_time, int64_t num_wanted, int64_t token_time = 1,
                     int32_t priority = 0) {
  return {.priority = priority,
          .num_wanted = num_wanted,
          .flow_time = flow_time,
          .token_time = token_time,
          .flow = flow};
}

TEST(PrefillBudgetTest, LongPromptsOfAFlowAreNotInTheWayOfAnothersShortOne) {
  EXPECT_THAT(Grants(100, 4, {OfFlow(1, 0, 5000), OfFlow(1, 0, 5000), OfFlow(2, 0, 20)}),
              ElementsAre(80, 0, 20));
}

TEST(PrefillBudgetTest, AFlowOfShortPromptsGetsNoMoreThanItsTurn) {
  EXPECT_THAT(
      Grants(200, 1, {OfFlow(1, 30, 60), OfFlow(1, 30, 60), OfFlow(1, 30, 60), OfFlow(2, 0, 100)}),
      ElementsAre(60, 40, 0, 100));
  EXPECT_THAT(
      Grants(90, 4, {OfFlow(1, 0, 60), OfFlow(1, 0, 60), OfFlow(1, 0, 60), OfFlow(2, 0, 100)}),
      ElementsAre(60, 0, 0, 30));
}

TEST(PrefillBudgetTest, TheFlowFurthestBehindIsPromisedAShareAgainstShortOnes) {
  EXPECT_THAT(Grants(100, 4, {OfFlow(1, 10, 60), OfFlow(2, 0, 5000), OfFlow(3, 10, 60)}),
              ElementsAre(60, 34, 6));
}

TEST(PrefillBudgetTest, WhoIsOwedIsPromisedItsShareHoweverFarItsFlowHasCome) {
  PrefillDemand owed = OfFlow(1, 9000, 500);
  owed.is_owed = true;
  EXPECT_THAT(Grants(100, 4, {OfFlow(2, 0, 5000), owed}), ElementsAre(50, 50));
}

TEST(PrefillBudgetTest, OfFlowsThatHaveComeEquallyFarTheFirstIsPromised) {
  EXPECT_THAT(Grants(100, 1, {OfFlow(2, 7, 500), OfFlow(1, 7, 500)}), ElementsAre(0, 100));
}

TEST(PrefillBudgetTest, AHeavierFlowIsDoneEarlier) {
  // 200 tokens at half the time each end before 150 tokens.
  EXPECT_THAT(Grants(220, 4, {OfFlow(1, 5, 150, 2), OfFlow(2, 5, 200, 1)}), ElementsAre(110, 110));
  EXPECT_THAT(Grants(250, 4, {OfFlow(2, 4, 150, 2), OfFlow(1, 5, 200, 1)}), ElementsAre(125, 125));
}

TEST(PrefillBudgetTest, PrioritiesCountWithinTheirFlow) {
  EXPECT_THAT(
      Grants(100, 4, {OfFlow(1, 0, 90, 1, /*priority=*/-5), OfFlow(2, 0, 50), OfFlow(1, 0, 10)}),
      ElementsAre(50, 50, 0));
}

}  // namespace
}  // namespace quire
