#include "tools/bench/kernels/graph_timer.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cpu/runtime/cpu_stream.h"

namespace quire::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::Le;
using ::testing::SizeIs;

TEST(NumCallsTest, SlowCallsAreMadeLessOftenInWholeRounds) {
  EXPECT_EQ(NumCalls(/*call_us=*/1, /*round=*/28, /*enough=*/64), 84);
  EXPECT_EQ(NumCalls(4'000, 28, 64), 28);  // a fifth of a second is one round, and no second one
  EXPECT_EQ(NumCalls(1e6, 28, 64), 28);    // at least one
  EXPECT_EQ(NumCalls(10'000, 1, 64), 20);
  EXPECT_EQ(NumCalls(0, 1, 64), 64);
}

class GraphTimerTest : public testing::Test {
 protected:
  GraphTimerTest()
      : backend_(OpenBackend({}).value()), timer_(GraphTimer::Create(*backend_).value()) {}

  // The buffers that calls are made for, in order, when each call takes at least `call_time`.
  std::vector<int> CallsOf(int64_t bytes, int num_buffers, std::chrono::milliseconds call_time) {
    std::vector<int> buffers;
    const auto us = timer_->MedianColdUs(bytes, num_buffers, [&](int buffer) {
      buffers.push_back(buffer);
      cpu::CpuStream::From(timer_->stream()).Enqueue([call_time] {
        std::this_thread::sleep_for(call_time);
      });
    });
    EXPECT_TRUE(us.ok()) << us.status();
    EXPECT_GE(us.value(), std::chrono::microseconds(call_time).count());
    return buffers;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<GraphTimer> timer_;
};

TEST_F(GraphTimerTest, CallsGoThroughColdMemoryTwice) {
  const int64_t bytes = timer_->cold_bytes() / 3;
  // The first call, by itself, says how many there is time for. Four such buffers are cold_bytes(),
  // as a third is rounded down. Eight calls are ten in whole rounds of the five buffers.
  EXPECT_THAT(CallsOf(bytes, 5, std::chrono::milliseconds(0)),
              ElementsAre(0, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4));
}

TEST_F(GraphTimerTest, SlowCallsAreFewer) {
  // 512 would take ten seconds a replay.
  EXPECT_THAT(CallsOf(/*bytes=*/1, 512, std::chrono::milliseconds(20)), SizeIs(Le(1 + 4 * 10)));
}

}  // namespace
}  // namespace quire::bench
