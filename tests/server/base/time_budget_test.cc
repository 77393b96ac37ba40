// What an address makes the server compute for nothing, and when it is served again.
#include "server/base/time_budget.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace quire {
namespace {

bool MayWork(const TimeAccount& account) { return account.may_work_at() <= absl::Now(); }
bool MayRead(const TimeAccount& account) { return account.may_read_at() <= absl::Now(); }

TEST(TimeAccountTest, InDebtNoWorkBeginsAndDeepInDebtNothingIsRead) {
  TimeAccount account;
  EXPECT_TRUE(account.is_full());
  account.Charge(0.2);
  EXPECT_TRUE(MayWork(account));
  EXPECT_FALSE(account.is_full());
  account.Charge(0.1);  // 0.05 too much
  EXPECT_TRUE(MayRead(account));
  account.Charge(100);
  EXPECT_FALSE(MayRead(account));
  EXPECT_FALSE(MayWork(account));
  EXPECT_LT(account.may_read_at(), account.may_work_at());
  // However deep, a debt has an end.
  EXPECT_LE(account.may_work_at(), absl::Now() + absl::Seconds(2));
}

TEST(CallCostTest, AnAnswerThatIsTakenGivesEverythingBack) {
  const auto account = std::make_shared<TimeAccount>();
  CallCost cost(account);
  cost.Charge(0.2);
  account->Charge(0.2);  // by the loop
  cost.Note(0.2);
  EXPECT_FALSE(MayWork(*account));
  cost.MarkServed(0);
  EXPECT_TRUE(account->is_full());
  cost.Charge(100);  // what the answer left to be done
  EXPECT_TRUE(account->is_full());
}

TEST(CallCostTest, AnAnswerThatIsNotTakenGivesNothingBack) {
  const auto account = std::make_shared<TimeAccount>();
  {
    CallCost cost(account);
    cost.Charge(100);
  }
  EXPECT_FALSE(MayWork(*account));
}

TEST(TimeBudgetTest, ADebtOutlivesItsConnections) {
  TimeBudget budget;
  budget.Find("a")->Charge(100);
  EXPECT_TRUE(MayWork(*budget.Find("b")));
  EXPECT_FALSE(MayWork(*budget.Find("a")));
  // Accounts without debts are forgotten; others are not.
  for (int i = 0; i < 5000; ++i) budget.Find(absl::StrCat(i));
  EXPECT_FALSE(MayWork(*budget.Find("a")));
  EXPECT_LT(budget.num_accounts(), 2000);
}

}  // namespace
}  // namespace quire
