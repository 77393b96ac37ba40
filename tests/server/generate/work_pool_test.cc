#include "server/generate/work_pool.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"

namespace quire {
namespace {

TEST(WorkPoolTest, RunsAllThatWasAccepted) {
  std::atomic<int> runs{0};
  {
    WorkPool pool(2, 100);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(pool.Add([&] { ++runs; }));
  }
  EXPECT_EQ(runs, 100);
}

TEST(WorkPoolTest, RefusesWhatIsTooMuch) {
  absl::Notification started, go_on;
  WorkPool pool(1, 1);
  ASSERT_TRUE(pool.Add([&] {
    started.Notify();
    go_on.WaitForNotification();
  }));
  started.WaitForNotification();
  EXPECT_TRUE(pool.Add([] {}));
  EXPECT_FALSE(pool.Add([] {}));
  go_on.Notify();
}

}  // namespace
}  // namespace quire
