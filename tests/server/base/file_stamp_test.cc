// Whether a file may have changed, and one caller per interval.
#include "server/base/file_stamp.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>
#include <vector>

#include "server/base/sha256.h"
#include "server/base/throttle.h"

namespace quire {
namespace {

class FileStampTest : public testing::Test {
 protected:
  ~FileStampTest() override { std::remove(path_.c_str()); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  const std::string path_ =
      testing::TempDir() + "/quire_file_stamp_test_" + std::to_string(getpid());
};

// As if some time had gone by between the last change and the look.
FileStamp Settled(FileStamp stamp) {
  stamp.looked_at = stamp.changed + absl::Seconds(2);
  return stamp;
}

TEST_F(FileStampTest, AFileThatIsLeftAloneDoesNotDiffer) {
  Write("one");
  const FileStamp stamp = Settled(FileStamp::Of(path_));
  EXPECT_TRUE(stamp.exists);
  EXPECT_EQ(stamp.size_bytes, 3);
  EXPECT_FALSE(stamp.MayDiffer(FileStamp::Of(path_)));
}

TEST_F(FileStampTest, EveryKindOfChange) {
  Write("one");
  const FileStamp first = Settled(FileStamp::Of(path_));
  Write("four");
  EXPECT_TRUE(first.MayDiffer(FileStamp::Of(path_)));

  FileStamp stamp = Settled(FileStamp::Of(path_));
  std::ofstream(path_ + ".new") << "four";
  ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  FileStamp now = FileStamp::Of(path_);
  now.written = stamp.written;
  now.changed = stamp.changed;
  EXPECT_TRUE(stamp.MayDiffer(now)) << "another file";

  stamp = Settled(FileStamp::Of(path_));
  now = stamp;
  now.written += absl::Nanoseconds(1);
  EXPECT_TRUE(stamp.MayDiffer(now));
  now = stamp;
  now.changed += absl::Nanoseconds(1);
  EXPECT_TRUE(stamp.MayDiffer(now)) << "written and set back";

  ASSERT_EQ(std::remove(path_.c_str()), 0);
  EXPECT_TRUE(stamp.MayDiffer(FileStamp::Of(path_)));
  EXPECT_FALSE(FileStamp::Of(path_).MayDiffer(FileStamp::Of(path_))) << "none before and after";
}

TEST_F(FileStampTest, ALookRightAfterAChangeMayHaveMissedAnother) {
  Write("one");
  FileStamp stamp = FileStamp::Of(path_);
  stamp.looked_at = stamp.changed + absl::Milliseconds(1999);
  EXPECT_TRUE(stamp.MayDiffer(FileStamp::Of(path_)));
}

TEST_F(FileStampTest, ThroughALink) {
  Write("one");
  const std::string link = path_ + ".link";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  const FileStamp stamp = Settled(FileStamp::Of(link));
  EXPECT_FALSE(stamp.MayDiffer(FileStamp::Of(link)));
  std::ofstream(path_ + ".other") << "one";
  ASSERT_EQ(std::remove(link.c_str()), 0);
  ASSERT_EQ(symlink((path_ + ".other").c_str(), link.c_str()), 0);
  EXPECT_TRUE(stamp.MayDiffer(FileStamp::Of(link))) << "as Kubernetes renews secrets";
  std::remove(link.c_str());
  std::remove((path_ + ".other").c_str());
}

TEST(ThrottleTest, OnePerInterval) {
  Throttle throttle(absl::Seconds(1));
  const absl::Time start = absl::UnixEpoch();
  EXPECT_TRUE(throttle.Pass(start));
  EXPECT_FALSE(throttle.Pass(start));
  EXPECT_FALSE(throttle.Pass(start + absl::Milliseconds(999)));
  EXPECT_TRUE(throttle.Pass(start + absl::Seconds(1)));
  EXPECT_FALSE(throttle.Pass(start + absl::Milliseconds(1999)));
  EXPECT_TRUE(throttle.Pass(start - absl::Hours(1))) << "a clock set back";
}

TEST(ThrottleTest, OneOfManyThreads) {
  Throttle throttle(absl::Seconds(1));
  std::atomic<int> num_passed{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int at = 0; at < 1000; ++at) {
        num_passed += throttle.Pass(absl::UnixEpoch() + absl::Microseconds(at)) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_passed, 1);
}

TEST(Sha256Test, OfAKnownText) {
  const Sha256 digest = Sha256Of("abc");
  EXPECT_EQ(digest[0], 0xba);
  EXPECT_EQ(digest[31], 0xad);
  EXPECT_NE(digest, Sha256Of("abd"));
}

}  // namespace
}  // namespace quire
