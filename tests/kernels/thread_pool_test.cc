#include "kernels/cpu/runtime/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace quire::cpu {
namespace {

TEST(ThreadPoolTest, CallsEveryItemOnceWithAValidThreadIndex) {
  for (int num_threads : {1, 2, 5}) {
    ThreadPool pool(num_threads);
    for (int64_t num_items : {0, 1, 7, 64, 1000}) {
      for (int64_t grain : {1, 3, 64}) {
        std::vector<std::atomic<int>> calls(num_items);
        pool.ParallelFor(num_items, grain, [&](int64_t begin, int64_t end, int thread_index) {
          ASSERT_GE(thread_index, 0);
          ASSERT_LT(thread_index, num_threads);
          ASSERT_LT(begin, end);
          for (int64_t i = begin; i < end; ++i) calls[i].fetch_add(1);
        });
        for (const std::atomic<int>& count : calls) ASSERT_EQ(count.load(), 1);
      }
    }
  }
}

TEST(ThreadPoolTest, ChunksAreNoLargerThanTheGrain) {
  ThreadPool pool(2);
  pool.ParallelFor(100, 8, [&](int64_t begin, int64_t end, int) { EXPECT_LE(end - begin, 8); });
}

TEST(ThreadPoolTest, OneChunkRunsOnTheCaller) {
  ThreadPool pool(4);
  const std::thread::id caller = std::this_thread::get_id();
  int num_calls = 0;
  pool.ParallelFor(10, 10, [&](int64_t begin, int64_t end, int thread_index) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(thread_index, 0);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 10);
    ++num_calls;
  });
  EXPECT_EQ(num_calls, 1);
}

// The thread that takes item 0 is held until all other items are done, so the other thread must do
// them. With a fixed division of the items this would never end.
TEST(ThreadPoolTest, AThreadThatIsHeldUpDelaysItsOwnChunkOnly) {
  ThreadPool pool(2);
  constexpr int kNumItems = 50;
  std::mutex mutex;
  std::condition_variable changed;
  int num_done = 0;
  pool.ParallelFor(kNumItems, 1, [&](int64_t begin, int64_t, int) {
    std::unique_lock<std::mutex> lock(mutex);
    if (begin == 0) changed.wait(lock, [&] { return num_done == kNumItems - 1; });
    ++num_done;
    changed.notify_all();
  });
  EXPECT_EQ(num_done, kNumItems);
}

TEST(ThreadPoolTest, ManyShortJobsInARow) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  constexpr int64_t kNumJobs = 3000;
  for (int64_t job = 0; job < kNumJobs; ++job) {
    pool.ParallelFor(4, 1, [&](int64_t begin, int64_t, int) { sum.fetch_add(begin + job); });
  }
  EXPECT_EQ(sum.load(), kNumJobs * 6 + 4 * (kNumJobs * (kNumJobs - 1) / 2));
}

TEST(ThreadPoolDeathTest, RefusesUseFromInsideItself) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(2);
        pool.ParallelFor(2, 1, [&](int64_t, int64_t, int) {
          pool.ParallelFor(2, 1, [](int64_t, int64_t, int) {});
        });
      },
      "from inside itself");
}

}  // namespace
}  // namespace quire::cpu
