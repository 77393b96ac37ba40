// The CPU's streams, events and captured graphs.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/runtime/cpu_stream.h"

namespace quire::cpu {
namespace {

// Holds the stream's thread until it is opened.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

void EnqueueGate(CpuStream& stream, Gate& gate) {
  stream.Enqueue([gate = &gate] { gate->Pass(); });
}

TEST(StreamTest, RunsInOrderOnItsOwnThread) {
  CpuStream stream;
  std::vector<int> order;
  std::thread::id runner;
  for (int i = 0; i < 100; ++i) {
    stream.Enqueue([i, order = &order, runner = &runner] {
      order->push_back(i);
      *runner = std::this_thread::get_id();
    });
  }
  ASSERT_TRUE(stream.Synchronize().ok());
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_NE(runner, std::this_thread::get_id());
}

TEST(StreamTest, EnqueueDoesNotWaitForTheWork) {
  CpuStream stream;
  Gate gate;
  bool ran = false;
  EnqueueGate(stream, gate);
  stream.Enqueue([ran = &ran] { *ran = true; });
  EXPECT_FALSE(ran);  // the gate is still closed
  gate.Open();
  ASSERT_TRUE(stream.Synchronize().ok());
  EXPECT_TRUE(ran);
}

TEST(StreamTest, CopiesAndFills) {
  CpuStream stream;
  std::vector<int> a = {1, 2, 3}, b(3), c(3);
  stream.CopyToDevice(b.data(), a.data(), 3 * sizeof(int));
  stream.FillZero(b.data() + 1, sizeof(int));
  stream.CopyToHost(c.data(), b.data(), 3 * sizeof(int));
  ASSERT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(c, (std::vector<int>{1, 0, 3}));
}

TEST(StreamTest, AFullQueueHoldsTheProducer) {
  constexpr int kCapacity = 3, kNumTasks = 40;
  CpuStream stream(kCapacity);
  Gate gate;
  std::atomic<int> num_enqueued{0};
  std::vector<int> enqueued_when_run;
  EnqueueGate(stream, gate);
  std::thread producer([&] {
    for (int i = 0; i < kNumTasks; ++i) {
      stream.Enqueue([n = &num_enqueued, seen = &enqueued_when_run] { seen->push_back(*n); });
      num_enqueued.fetch_add(1);
    }
  });
  // The gate holds one place; the ring has room for two more, and a third waits.
  while (num_enqueued.load() < kCapacity - 1) std::this_thread::yield();
  gate.Open();
  producer.join();
  ASSERT_TRUE(stream.Synchronize().ok());
  ASSERT_EQ(enqueued_when_run.size(), static_cast<size_t>(kNumTasks));
  for (int i = 0; i < kNumTasks; ++i) EXPECT_LE(enqueued_when_run[i], i + kCapacity);
}

TEST(StreamTest, DestructionRunsWhatIsQueued) {
  int count = 0;
  {
    CpuStream stream;
    for (int i = 0; i < 10; ++i) stream.Enqueue([count = &count] { ++*count; });
  }
  EXPECT_EQ(count, 10);
}

TEST(EventTest, IsDoneBeforeAnyRecord) {
  CpuEvent event;
  EXPECT_TRUE(event.Done());
  EXPECT_TRUE(event.Wait().ok());
}

TEST(EventTest, IsDoneWhenWhatPrecededItIs) {
  CpuStream stream;
  CpuEvent event;
  Gate first, second;
  bool ran = false;
  EnqueueGate(stream, first);
  stream.Enqueue([ran = &ran] { *ran = true; });
  stream.Record(event);
  EnqueueGate(stream, second);
  EXPECT_FALSE(event.Done());
  first.Open();
  ASSERT_TRUE(event.Wait().ok());  // although the stream is held by the second gate
  EXPECT_TRUE(ran);
  EXPECT_TRUE(event.Done());
  second.Open();
}

TEST(EventTest, RecordAgainMovesIt) {
  CpuStream stream;
  CpuEvent event;
  stream.Record(event);
  EXPECT_TRUE(event.Done());
  Gate gate;
  EnqueueGate(stream, gate);
  stream.Record(event);
  EXPECT_FALSE(event.Done());
  gate.Open();
  ASSERT_TRUE(event.Wait().ok());
}

TEST(EventTest, AnotherThreadMayWait) {
  CpuStream stream;
  CpuEvent event;
  Gate gate;
  int value = 0;
  EnqueueGate(stream, gate);
  stream.Enqueue([value = &value] { *value = 42; });
  stream.Record(event);
  int seen = 0;
  std::thread waiter([&] {
    ASSERT_TRUE(event.Wait().ok());
    seen = value;
  });
  gate.Open();
  waiter.join();
  EXPECT_EQ(seen, 42);
}

TEST(EventTest, WaitersOfDifferentTasksReturnInTurn) {
  CpuStream stream;
  CpuEvent events[3];
  Gate gates[3];
  for (int i = 0; i < 3; ++i) {
    EnqueueGate(stream, gates[i]);
    stream.Record(events[i]);
  }
  std::vector<std::thread> waiters;
  std::atomic<int> num_returned{0};
  Gate returned[3];
  for (int i = 2; i >= 0; --i) {
    waiters.emplace_back([&, i] {
      ASSERT_TRUE(events[i].Wait().ok());
      EXPECT_EQ(num_returned.fetch_add(1), i);
      returned[i].Open();
    });
  }
  for (int i = 0; i < 3; ++i) {
    gates[i].Open();
    returned[i].Pass();
  }
  for (std::thread& waiter : waiters) waiter.join();
}

// A step is hundreds of tasks; one that woke for each would disturb the threads that compute.
TEST(EventTest, AWaiterSleepsUntilItsTaskIsDone) {
  constexpr int kNumTasks = 200;
  CpuStream stream;
  Gate gate;
  EnqueueGate(stream, gate);
  for (int i = 0; i < kNumTasks; ++i) {
    stream.Enqueue([] { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
  }
  rusage before = {}, after = {};
  ASSERT_EQ(getrusage(RUSAGE_THREAD, &before), 0);
  gate.Open();
  ASSERT_TRUE(stream.Synchronize().ok());
  ASSERT_EQ(getrusage(RUSAGE_THREAD, &after), 0);
  EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, kNumTasks / 4);
}

TEST(EventTest, MayOutliveItsStream) {
  CpuEvent event;
  {
    CpuStream stream;
    stream.Enqueue([] {});
    stream.Record(event);
  }
  EXPECT_TRUE(event.Done());
  EXPECT_TRUE(event.Wait().ok());
}

TEST(GraphTest, CaptureRecordsAndReplayReadsTheContentsOfTheDay) {
  CpuStream stream;
  int in = 1, out = 0, last = 0;
  stream.BeginCapture();
  stream.CopyToDevice(&out, &in, sizeof(int));
  stream.Enqueue([out = &out] { *out *= 10; });
  auto graph = stream.EndCapture();
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(out, 0);  // nothing ran
  for (int value : {3, 4}) {
    in = value;
    stream.Launch(**graph);
    stream.CopyToHost(&last, &out, sizeof(int));
    ASSERT_TRUE(stream.Synchronize().ok());
    EXPECT_EQ(last, 10 * value);
  }
}

TEST(GraphTest, ALaunchKeepsItsPlaceInTheStream) {
  CpuStream stream;
  std::vector<int> order;
  stream.BeginCapture();
  for (int i : {2, 3}) stream.Enqueue([i, order = &order] { order->push_back(i); });
  auto graph = stream.EndCapture();
  ASSERT_TRUE(graph.ok());
  stream.Enqueue([order = &order] { order->push_back(1); });
  stream.Launch(**graph);
  stream.Enqueue([order = &order] { order->push_back(4); });
  ASSERT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST(GraphTest, ACaptureStartsEmpty) {
  CpuStream stream;
  int count = 0;
  stream.BeginCapture();
  stream.Enqueue([count = &count] { ++*count; });
  ASSERT_TRUE(stream.EndCapture().ok());
  stream.BeginCapture();
  auto empty = stream.EndCapture();
  ASSERT_TRUE(empty.ok());
  stream.Launch(**empty);
  ASSERT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(count, 0);
}

TEST(GraphDeathTest, RecordIsRefusedWhileCapturing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        CpuStream stream;
        CpuEvent event;
        stream.BeginCapture();
        stream.Record(event);
      },
      "cannot be recorded");
}

TEST(StreamTest, TimedEventsTellHowLongTheStreamTook) {
  CpuStream stream;
  CpuEvent begin(/*timed=*/true), end(/*timed=*/true);
  std::atomic<int64_t> first_ns{0}, last_ns{0};
  const auto note_time = [](std::atomic<int64_t>* ns) {
    *ns = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  };
  stream.Record(begin);
  stream.Enqueue([=, ns = &first_ns] { note_time(ns); });
  stream.Enqueue([=, ns = &last_ns] { note_time(ns); });
  stream.Record(end);
  ASSERT_TRUE(end.Wait().ok());
  EXPECT_GE(end.MicrosecondsSince(begin), 1e-3 * static_cast<double>(last_ns - first_ns));
}

}  // namespace
}  // namespace quire::cpu
