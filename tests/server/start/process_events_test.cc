// Signals as the main thread sees them: which are one, and which are two.
#include "server/start/process_events.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "kernels/base/clock.h"

namespace quire {
namespace {

using Kind = ProcessEvents::Kind;

class ProcessEventsTest : public testing::Test {
 protected:
  static void Send(int number) { kill(getpid(), number); }
  // What has happened by now.
  Kind Next() { return events_.Wait(MonotonicNow()); }
  // Longer than what comes in one go.
  static void Pause() { absl::SleepFor(absl::Milliseconds(20)); }

  int num_hangups_ = 0;
  ProcessEvents events_{[this] { ++num_hangups_; }};
};

TEST_F(ProcessEventsTest, TwoSignalsWithinASecondAreTwo) {
  Send(SIGTERM);
  EXPECT_EQ(Next(), Kind::kSignal);
  EXPECT_EQ(Next(), Kind::kTimeout);
  Pause();
  Send(SIGTERM);
  EXPECT_EQ(Next(), Kind::kSignal);
  Send(SIGINT);
  EXPECT_EQ(Next(), Kind::kSignal);
}

TEST_F(ProcessEventsTest, TheSameSignalOnceMoreInOneGoIsNone) {
  Send(SIGTERM);
  EXPECT_EQ(Next(), Kind::kSignal);
  const absl::Time begin = MonotonicNow();
  Send(SIGTERM);
  const Kind next = Next();
  // On a machine that was busy elsewhere it was not in one go.
  if (MonotonicNow() - begin < absl::Milliseconds(5)) {
    EXPECT_EQ(next, Kind::kTimeout);
  }
}

TEST_F(ProcessEventsTest, AHangupIsNoEndAndHidesNone) {
  Send(SIGHUP);
  EXPECT_EQ(Next(), Kind::kTimeout);
  EXPECT_EQ(num_hangups_, 1);
  Send(SIGHUP);
  Send(SIGTERM);
  EXPECT_EQ(Next(), Kind::kSignal);
  EXPECT_EQ(Next(), Kind::kTimeout);
  EXPECT_EQ(num_hangups_, 2);
  Send(SIGHUP);
  EXPECT_EQ(Next(), Kind::kTimeout);
  EXPECT_EQ(num_hangups_, 3);
}

TEST_F(ProcessEventsTest, NewsWakes) {
  events_.Notify();
  EXPECT_EQ(events_.Wait(), Kind::kNews);
  EXPECT_EQ(Next(), Kind::kTimeout);
}

}  // namespace
}  // namespace quire
