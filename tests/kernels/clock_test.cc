// The clock that never steps, and waiting by it. What a step of the other one does to a server is
// in tests/e2e/clock_test.py.
#include "kernels/base/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace quire {
namespace {

TEST(ClockTest, BothClocksShowTheTimeWhileNobodySetsOne) {
  const absl::Time before = MonotonicNow();
  EXPECT_LE(before, MonotonicNow());
  EXPECT_LT(absl::AbsDuration(WallNow() - MonotonicNow()), absl::Minutes(1));
  EXPECT_LT(absl::AbsDuration(ToWallTime(before) - before), absl::Minutes(1));
}

TEST(MonotonicCondVarTest, WaitsForWhatIsSignalled) {
  absl::Mutex mutex;
  MonotonicCondVar changed;
  bool is_done = false;
  std::thread other([&] {
    absl::MutexLock lock(&mutex);
    is_done = true;
    changed.Signal();
  });
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(changed.Await(&mutex, absl::InfiniteFuture(), [&] { return is_done; }));
    mutex.AssertHeld();
  }
  other.join();
}

TEST(MonotonicCondVarTest, EndsAtTheDeadline) {
  absl::Mutex mutex;
  MonotonicCondVar never;
  absl::MutexLock lock(&mutex);
  EXPECT_FALSE(never.Await(&mutex, MonotonicNow() + absl::Milliseconds(5), [] { return false; }));
  EXPECT_FALSE(never.Await(&mutex, absl::InfinitePast(), [] { return false; }));
  EXPECT_TRUE(never.Await(&mutex, absl::InfinitePast(), [] { return true; }));
  never.WaitUntil(&mutex, MonotonicNow() - absl::Seconds(1));
  mutex.AssertHeld();
}

}  // namespace
}  // namespace quire
