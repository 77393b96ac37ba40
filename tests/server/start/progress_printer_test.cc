// What a newcomer reads while a model is loaded: amounts, rates, bars; counting from many threads.
#include "server/start/progress_printer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ProgressSnapshot Snapshot(int64_t done, int64_t total, ProgressUnit unit, double seconds) {
  return {.stage = "loading weights",
          .unit = unit,
          .done = done,
          .total = total,
          .elapsed = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000))};
}

TEST(ProgressTextTest, BytesRateAndTimeLeft) {
  EXPECT_EQ(ProgressText(Snapshot(4'000'000'000, 16'000'000'000, ProgressUnit::kBytes, 2)),
            "loading weights: 4.00 of 16.00 GB, 2.0 GB/s, 6 s left");
  EXPECT_EQ(ProgressText(Snapshot(1'500'000, 3'000'000, ProgressUnit::kBytes, 1)),
            "loading weights: 1.5 of 3.0 MB, 1.5 MB/s, 1 s left");
}

TEST(ProgressTextTest, SaysOnlyWhatIsKnown) {
  EXPECT_EQ(ProgressText(Snapshot(0, 64, ProgressUnit::kItems, 1)), "loading weights: 0 of 64");
  EXPECT_EQ(ProgressText(Snapshot(32, 64, ProgressUnit::kItems, 4)),
            "loading weights: 32 of 64, 8.0/s, 4 s left");
  EXPECT_EQ(ProgressText(Snapshot(5'000'000, 0, ProgressUnit::kBytes, 1)),
            "loading weights: 5.0 MB, 5.0 MB/s");
}

TEST(ProgressBarTest, FillsAndStaysWithinTheTerminal) {
  const ProgressSnapshot half = Snapshot(32, 64, ProgressUnit::kItems, 4);
  EXPECT_THAT(ProgressBar(half, 200), StartsWith("[############............]  50% loading"));
  EXPECT_THAT(ProgressBar(half, 200), HasSubstr("4 s left"));
  EXPECT_EQ(ProgressBar(half, 40).size(), 39u);
  // More than was expected is still a full bar.
  EXPECT_THAT(ProgressBar(Snapshot(90, 64, ProgressUnit::kItems, 4), 200),
              StartsWith("[########################] 100%"));
  EXPECT_THAT(ProgressBar(Snapshot(9, 0, ProgressUnit::kItems, 4), 200), Not(HasSubstr("[")));
}

TEST(ProgressTest, StagesFollowEachOtherAndCountFromManyThreads) {
  Progress progress;
  EXPECT_EQ(progress.Read().stage, "");
  {
    ProgressStage stage(&progress, "downloading", 4000, ProgressUnit::kItems);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 1000; ++j) stage.Add(1);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(progress.Read().done, 4000);
    EXPECT_EQ(progress.Read().stage, "downloading");
  }
  EXPECT_EQ(progress.Read().stage, "");
  const ProgressStage next(&progress, "tuning", 7, ProgressUnit::kItems);
  EXPECT_EQ(progress.Read().done, 0);
  EXPECT_EQ(progress.Read().total, 7);
  ProgressStage(nullptr, "nobody watches", 1, ProgressUnit::kItems).Add(1);
}

TEST(ProgressPrinterTest, PrintsLinesWhereThereIsNoTerminal) {
  if (isatty(STDERR_FILENO) == 1) GTEST_SKIP() << "standard error is a terminal";
  Progress progress;
  std::mutex mutex;
  std::condition_variable printed;
  std::vector<std::string> lines;
  const ProgressPrinter printer(
      progress,
      [&](const std::string& line) {
        const std::lock_guard lock(mutex);
        lines.push_back(line);
        printed.notify_one();
      },
      [](const std::string&) { ADD_FAILURE() << "no bar is drawn"; });
  const ProgressStage stage(&progress, "loading weights", 100, ProgressUnit::kItems);
  std::unique_lock lock(mutex);
  printed.wait(lock, [&] { return !lines.empty(); });
  EXPECT_THAT(lines[0], StartsWith("loading weights: 0 of 100"));
}

}  // namespace
}  // namespace quire
