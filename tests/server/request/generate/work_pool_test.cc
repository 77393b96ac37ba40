#include "server/request/generate/work_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/request/retry_pushback.h"

namespace quire {
namespace {

using absl::StatusCode;

// The fate of one piece of work.
struct Outcome {
  std::shared_ptr<CancelToken> token = std::make_shared<CancelToken>();
  std::shared_ptr<CallCost> cost;
  std::atomic<int> num_calls = 0;
  absl::Status status;
  absl::Notification done;

  WorkPool::Work Work(size_t num_bytes = 1) {
    return {num_bytes, token, cost, [this](const absl::Status& given) {
              status = given;
              if (++num_calls == 1) done.Notify();
            }};
  }
};

// A pool of one thread, which is busy until Release.
struct BusyPool {
  explicit BusyPool(size_t max_queued, size_t max_queued_bytes)
      : pool(1, max_queued, max_queued_bytes) {
    absl::Notification started;
    pool.Add({0, std::make_shared<CancelToken>(), nullptr, [&](const absl::Status&) {
                started.Notify();
                go_on.WaitForNotification();
              }});
    started.WaitForNotification();
  }
  ~BusyPool() { Release(); }
  void Release() {
    if (!go_on.HasBeenNotified()) go_on.Notify();
  }

  absl::Notification go_on;
  WorkPool pool;
};

TEST(WorkPoolTest, DoesWhatItIsGiven) {
  Outcome outcomes[100];
  WorkPool pool(2, 100, 100);
  for (Outcome& outcome : outcomes) pool.Add(outcome.Work());
  for (Outcome& outcome : outcomes) {
    outcome.done.WaitForNotification();
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  }
}

TEST(WorkPoolTest, TheOldestFirst) {
  std::vector<int> order;
  {
    BusyPool busy(10, 10);
    absl::Notification last;
    for (int i = 0; i < 5; ++i) {
      busy.pool.Add(
          {1, std::make_shared<CancelToken>(), nullptr, [&order, &last, i](const absl::Status&) {
             order.push_back(i);
             if (i == 4) last.Notify();
           }});
    }
    busy.Release();
    last.WaitForNotification();
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(WorkPoolTest, TooManyAreRefusedAtOnceWithAdvice) {
  Outcome waits, refused;
  BusyPool busy(1, 100);
  busy.pool.Add(waits.Work());
  busy.pool.Add(refused.Work());
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryPushbackMs(refused.status).has_value());
  EXPECT_EQ(waits.num_calls, 0);
}

TEST(WorkPoolTest, TooManyBytesAreRefusedButNotTheFirst) {
  Outcome large, refused, fits;
  BusyPool busy(100, 10);
  busy.pool.Add(large.Work(11));
  EXPECT_EQ(large.num_calls, 0) << "alone, it may wait";
  large.token->Cancel();
  busy.pool.Add(fits.Work(6));
  busy.pool.Add(refused.Work(5));
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(fits.num_calls, 0);
}

TEST(WorkPoolTest, CancelledWorkLeavesAtOnceWithItsBytes) {
  Outcome cancelled, next;
  BusyPool busy(1, 10);
  busy.pool.Add(cancelled.Work(10));
  cancelled.token->Cancel();
  EXPECT_EQ(cancelled.status.code(), StatusCode::kCancelled) << "while the only thread is busy";
  busy.pool.Add(next.Work(10));
  EXPECT_EQ(next.num_calls, 0) << next.status;
  busy.Release();
  next.done.WaitForNotification();
  EXPECT_TRUE(next.status.ok());
  EXPECT_EQ(cancelled.num_calls, 1);
}

TEST(WorkPoolTest, WhatIsCancelledBeforeNeverWaits) {
  Outcome outcome;
  BusyPool busy(1, 10);
  outcome.token->Cancel();
  busy.pool.Add(outcome.Work());
  EXPECT_EQ(outcome.status.code(), StatusCode::kCancelled);
  EXPECT_EQ(outcome.num_calls, 1);
}

std::shared_ptr<CallCost> CostOf(const std::shared_ptr<TimeAccount>& account) {
  return std::make_shared<CallCost>(account);
}

TEST(WorkPoolTest, NoAccountFillsTheQueue) {
  const auto greedy = std::make_shared<TimeAccount>(), other = std::make_shared<TimeAccount>();
  BusyPool busy(16, 1000);
  Outcome places[13];
  for (Outcome& outcome : places) {
    outcome.cost = CostOf(greedy);
    busy.pool.Add(outcome.Work());
  }
  EXPECT_EQ(places[11].num_calls, 0);  // three quarters
  EXPECT_EQ(places[12].status.code(), StatusCode::kResourceExhausted);
  Outcome bytes, newcomer;
  bytes.cost = CostOf(other);
  newcomer.cost = CostOf(other);
  busy.pool.Add(newcomer.Work());
  EXPECT_EQ(newcomer.num_calls, 0);
  busy.pool.Add(bytes.Work(900));  // there is room for it, but not for one account
  EXPECT_EQ(bytes.status.code(), StatusCode::kResourceExhausted);
  busy.Release();
  newcomer.done.WaitForNotification();
  places[11].done.WaitForNotification();
}

// However many threads there are; what is small passes it by.
TEST(WorkPoolTest, LargeWorkIsDoneOneAtATime) {
  constexpr size_t kLarge = 1 << 20;
  WorkPool pool(4, 16, 16 * kLarge);
  std::atomic<int> num_under_way = 0, most = 0;
  absl::Notification first_began, go_on;
  absl::BlockingCounter ended(4);
  for (int i = 0; i < 4; ++i) {
    pool.Add({kLarge, std::make_shared<CancelToken>(), nullptr, [&](const absl::Status&) {
                most = std::max<int>(most, ++num_under_way);
                if (!first_began.HasBeenNotified()) first_began.Notify();
                go_on.WaitForNotification();
                --num_under_way;
                ended.DecrementCount();
              }});
  }
  first_began.WaitForNotification();
  Outcome small;
  pool.Add(small.Work());
  small.done.WaitForNotification();
  EXPECT_EQ(most, 1);
  go_on.Notify();
  ended.Wait();
  EXPECT_EQ(most, 1);
}

TEST(WorkPoolTest, WhoIsInDebtWaitsForTheOthers) {
  const auto debtor = std::make_shared<TimeAccount>(), other = std::make_shared<TimeAccount>();
  BusyPool busy(16, 1000);
  Outcome first, second;
  first.cost = CostOf(debtor);
  second.cost = CostOf(other);
  busy.pool.Add(first.Work());
  busy.pool.Add(second.Work());
  debtor->Charge(100);
  busy.Release();
  second.done.WaitForNotification();
  EXPECT_EQ(first.num_calls, 0);
  debtor->Charge(-100);
  first.done.WaitForNotification();
  EXPECT_TRUE(first.status.ok());
}

TEST(WorkPoolTest, WhoIsInDebtMayBeCancelledAndDoesNotHoldUpTheEnd) {
  const auto debtor = std::make_shared<TimeAccount>();
  Outcome cancelled, dropped;
  {
    BusyPool busy(16, 1000);
    for (Outcome* outcome : {&cancelled, &dropped}) {
      outcome->cost = CostOf(debtor);
      busy.pool.Add(outcome->Work());
    }
    debtor->Charge(100);
    cancelled.token->Cancel();
    EXPECT_EQ(cancelled.status.code(), StatusCode::kCancelled);
    busy.Release();
    busy.pool.Close();
  }
  EXPECT_EQ(cancelled.num_calls, 1);
  EXPECT_EQ(dropped.num_calls, 1);
}

TEST(WorkPoolTest, TheCallPaysForItsWork) {
  const auto account = std::make_shared<TimeAccount>();
  const auto cost = CostOf(account);
  {
    WorkPool pool(1, 1, 1);
    pool.Add({1, std::make_shared<CancelToken>(), cost, [](const absl::Status&) {
                const double begin = ThreadSeconds();
                while (ThreadSeconds() < begin + 0.05) {
                }
              }});
    while (account->is_full()) std::this_thread::yield();
  }
  EXPECT_FALSE(account->is_full());
  cost->MarkServed(0);
  account->Charge(1e-3);
  cost->Charge(100);  // it has been of use
  EXPECT_LE(account->may_work_at(), absl::Now());
}

TEST(WorkPoolTest, CloseDropsWhatWaitsAndRefusesWhatComes) {
  Outcome waits, late;
  BusyPool busy(10, 10);
  busy.pool.Add(waits.Work());
  busy.pool.Close();
  EXPECT_EQ(waits.status.code(), StatusCode::kUnavailable);
  busy.pool.Add(late.Work());
  EXPECT_EQ(late.status.code(), StatusCode::kUnavailable);
  waits.token->Cancel();
  busy.Release();
  EXPECT_EQ(waits.num_calls, 1);
  EXPECT_EQ(late.num_calls, 1);
}

TEST(WorkPoolTest, ATokenMayOutliveThePool) {
  Outcome outcome;
  { WorkPool(1, 1, 1).Add(outcome.Work()); }
  outcome.token->Cancel();
  EXPECT_EQ(outcome.num_calls, 1);
}

// Each work is ended exactly once, whichever call comes first.
TEST(WorkPoolTest, CancellingAndClosingWhileItRuns) {
  for (int round = 0; round < 50; ++round) {
    std::vector<Outcome> outcomes(64);
    {
      WorkPool pool(2, 32, 1000);
      std::thread canceller([&] {
        for (Outcome& outcome : outcomes) outcome.token->Cancel();
      });
      for (Outcome& outcome : outcomes) pool.Add(outcome.Work());
      pool.Close();
      canceller.join();
    }
    for (Outcome& outcome : outcomes) ASSERT_EQ(outcome.num_calls, 1);
  }
}

}  // namespace
}  // namespace quire
