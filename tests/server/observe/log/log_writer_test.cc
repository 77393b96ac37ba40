// The log's own thread, before a pipe that is read late or never: nobody else waits.
#include "server/observe/log/log_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

using Importance = LogWriter::Importance;

constexpr absl::Duration kLong = absl::Seconds(60);

// A writer before a pipe.
class LogWriterTest : public testing::Test {
 protected:
  LogWriterTest() {
    signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe(fds_.data()), 0);
    writer_ = std::make_unique<LogWriter>(fds_[1]);
  }
  ~LogWriterTest() override {
    writer_.reset();
    for (const int fd : fds_) {
      if (fd >= 0) close(fd);
    }
  }

  // Until nothing more can be written, so that the writer's thread waits, too.
  void Fill() {
    const int flags = fcntl(fds_[1], F_GETFL);
    fcntl(fds_[1], F_SETFL, flags | O_NONBLOCK);
    const std::string piece(4096, '.');
    while (write(fds_[1], piece.data(), piece.size()) > 0) num_filled_ += piece.size();
    fcntl(fds_[1], F_SETFL, flags);
  }
  // The text that comes until everything is written, without what filled the pipe.
  std::vector<std::string> ReadLines() {
    std::string text;
    std::array<char, 65536> buffer;
    while (true) {
      pollfd readable = {fds_[0], POLLIN, 0};
      if (poll(&readable, 1, writer_->Flush(absl::ZeroDuration()) ? 0 : 10) > 0) {
        text.append(buffer.data(), read(fds_[0], buffer.data(), buffer.size()));
      } else if (writer_->Flush(absl::ZeroDuration())) {
        if (poll(&readable, 1, 0) == 0) break;
      }
    }
    text.erase(0, std::exchange(num_filled_, 0));
    return absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  }

  std::array<int, 2> fds_ = {-1, -1};
  size_t num_filled_ = 0;
  std::unique_ptr<LogWriter> writer_;
};

TEST_F(LogWriterTest, LinesComeInOrderAndLongOnesWhole) {
  const std::string long_line(100'000, 'x');
  writer_->Write("one\n", Importance::kLine);
  writer_->Write(long_line + "\n", Importance::kWarning);
  writer_->Write("three\n", Importance::kLast);
  EXPECT_THAT(ReadLines(), ElementsAre("one", long_line, "three"));
}

TEST_F(LogWriterTest, WithoutAReaderNobodyWaits) {
  Fill();
  const std::string line(1000, 'x');
  for (int i = 0; i < 20'000; ++i) writer_->Write(line + "\n", Importance::kLine);
  EXPECT_FALSE(writer_->Flush(absl::Milliseconds(10)));
  writer_.reset();  // nor does the end
}

TEST_F(LogWriterTest, WhatFoundNoRoomIsCounted) {
  constexpr int kNumLines = 20'000;
  writer_->SetSayOmitted([](int64_t count) { return absl::StrCat("left out ", count, "\n"); });
  Fill();
  const std::string line(500, 'x');
  for (int i = 0; i < kNumLines; ++i) writer_->Write(line + "\n", Importance::kLine);
  writer_->Write("a warning\n", Importance::kWarning);
  writer_->Write("the last words\n", Importance::kLast);
  const std::vector<std::string> lines = ReadLines();
  int64_t num_lines = 0, num_omitted = 0;
  for (const absl::string_view one : lines) {
    absl::string_view rest = one;
    int64_t count = 0;
    if (absl::ConsumePrefix(&rest, "left out ") && absl::SimpleAtoi(rest, &count)) {
      num_omitted += count;
    } else if (one == line) {
      ++num_lines;
    }
  }
  EXPECT_EQ(num_lines + num_omitted, kNumLines);
  EXPECT_LE(num_lines, static_cast<int64_t>(LogWriter::kMaxBytes / line.size()));
  EXPECT_THAT(lines, testing::IsSupersetOf({"a warning", "the last words"}));
  writer_->Write("and on it goes\n", Importance::kLine);
  EXPECT_THAT(ReadLines(), testing::Contains("and on it goes"));
}

TEST_F(LogWriterTest, TheCountComesOnceForMany) {
  writer_->SetSayOmitted([](int64_t) { return "left out\n"; });
  Fill();
  const std::string line(500, 'x');
  for (int i = 0; i < 5000; ++i) writer_->Write(line + "\n", Importance::kLine);
  const std::vector<std::string> lines = ReadLines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "left out"), 1);
}

TEST_F(LogWriterTest, AProgressBarIsNothingToWaitFor) {
  Fill();
  writer_->Write("a line\n", Importance::kLine);
  for (int i = 0; i < 1000; ++i) writer_->Write("bar\n", Importance::kPicture);
  EXPECT_THAT(ReadLines(), ElementsAre("a line"));
}

TEST_F(LogWriterTest, AReaderThatIsGoneIsNoTrouble) {
  close(fds_[0]);
  fds_[0] = -1;
  for (int i = 0; i < 1000; ++i) writer_->Write("a line\n", Importance::kLine);
  EXPECT_TRUE(writer_->Flush(kLong));
}

}  // namespace
}  // namespace quire
