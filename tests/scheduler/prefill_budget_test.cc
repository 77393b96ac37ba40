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

}  // namespace
}  // namespace quire
