// The watchdog's verdicts. No time is asserted: what must happen is waited for, and what must not
// happen has had the time in which a second watchdog of the same limit, started later, found a
// hang.
#include "engine/watchdog.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>

namespace quire {
namespace {

constexpr absl::Duration kLimit = absl::Milliseconds(50);

// Returns when a round that began after this call is overdue.
void WaitForAHang() {
  std::promise<void> hung;
  Watchdog watchdog(kLimit, [&] { hung.set_value(); });
  watchdog.BeginRound();
  hung.get_future().wait();
}

TEST(WatchdogTest, ARoundThatDoesNotEndIsReportedOnce) {
  std::atomic<int> num_reports{0};
  Watchdog watchdog(kLimit, [&] { ++num_reports; });
  watchdog.BeginRound();
  WaitForAHang();
  while (num_reports == 0) std::this_thread::yield();
  WaitForAHang();
  EXPECT_EQ(num_reports, 1);
}

TEST(WatchdogTest, NothingIsWatchedBeforeTheFirstRoundNorAtRest) {
  std::atomic<int> num_reports{0};
  Watchdog watchdog(kLimit, [&] { ++num_reports; });
  WaitForAHang();
  EXPECT_EQ(num_reports, 0);
  watchdog.BeginRound();
  watchdog.Rest();
  WaitForAHang();
  EXPECT_EQ(num_reports, 0);
  watchdog.BeginRound();  // watched again
  while (num_reports == 0) std::this_thread::yield();
}

TEST(WatchdogTest, RoundsThatEndAreNotReportedHoweverManyThereAre) {
  std::atomic<int> num_reports{0};
  Watchdog watchdog(absl::Seconds(20), [&] { ++num_reports; });
  for (int i = 0; i < 100000; ++i) {
    watchdog.BeginRound();
    if (i % 3 == 0) watchdog.Rest();
  }
  EXPECT_EQ(num_reports, 0);
}

TEST(WatchdogTest, EndsAtOnceWhateverItWaitsFor) {
  for (const absl::Duration limit : {absl::Hours(1), absl::InfiniteDuration()}) {
    for (const bool running : {false, true}) {
      Watchdog watchdog(limit, [] { FAIL(); });
      if (running) watchdog.BeginRound();
    }
  }
}

}  // namespace
}  // namespace quire
