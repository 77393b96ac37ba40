// The key file while the server runs: changes are found, broken files change nothing.
#include "server/auth/key_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kOld[] = "the-old-key-of-alice";
constexpr char kNew[] = "the-new-key-of-alice";

std::string LineOf(const std::string& key) {
  return R"({"key": ")" + key + R"(", "name": "alice"})" + "\n";
}

class KeyFileTest : public testing::Test {
 protected:
  KeyFileTest() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
    Write(LineOf(kOld));
  }
  ~KeyFileTest() override {
    std::remove(path_.c_str());
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("after"));
  }

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  void MoveIn(const std::string& text) {
    std::ofstream(path_ + ".new") << text;
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }
  std::unique_ptr<KeyFile> Open() {
    absl::StatusOr<std::unique_ptr<KeyFile>> file = KeyFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  // Whether the file has the key after somebody has looked.
  static bool Has(KeyFile& file, const char* key) {
    file.Look();
    return file.Table()->FindKey(key) != nullptr;
  }
  std::string TakeLog() {
    const std::string text = log_.str();
    log_.str("");
    return text;
  }

  const std::string path_ = testing::TempDir() + "/quire_key_file_test_" + std::to_string(getpid());
  std::ostringstream log_;
};

TEST_F(KeyFileTest, AChangedFileIsReadAtTheNextLook) {
  const auto file = Open();
  EXPECT_TRUE(Has(*file, kOld));
  Write(LineOf(kNew));
  EXPECT_TRUE(Has(*file, kNew));
  EXPECT_FALSE(Has(*file, kOld)) << "a key that is gone is worth nothing";
  EXPECT_THAT(TakeLog(), HasSubstr("read 1 keys from " + path_));
  MoveIn(LineOf(kOld) + LineOf(kNew));
  EXPECT_TRUE(Has(*file, kOld));
  EXPECT_TRUE(Has(*file, kNew));
}

TEST_F(KeyFileTest, UsingTheKeysDoesNotTouchTheFile) {
  const auto file = Open();
  Write(LineOf(kNew));
  EXPECT_NE(file->Table()->FindKey(kOld), nullptr);
  ASSERT_EQ(std::remove(path_.c_str()), 0);
  EXPECT_NE(file->Table()->FindKey(kOld), nullptr);
}

TEST_F(KeyFileTest, ABrokenFileKeepsTheKeysAndIsOneLine) {
  const auto file = Open();
  for (const char* broken : {"", "{", "{\"key\": \"x\"}"}) {
    Write(broken);
    EXPECT_TRUE(Has(*file, kOld)) << broken;
    EXPECT_THAT(TakeLog(), HasSubstr("the keys stay as they were: " + path_));
    EXPECT_TRUE(Has(*file, kOld)) << broken;
    EXPECT_EQ(TakeLog(), "") << "the same trouble twice";
  }
  ASSERT_EQ(std::remove(path_.c_str()), 0);
  EXPECT_TRUE(Has(*file, kOld));
  EXPECT_THAT(TakeLog(), HasSubstr("No such file"));
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(Has(*file, kOld)) << "and nothing waits for a writer";
  EXPECT_THAT(TakeLog(), HasSubstr("not a regular file"));
  ASSERT_EQ(std::remove(path_.c_str()), 0);
  Write(LineOf(kNew));
  EXPECT_TRUE(Has(*file, kNew));
}

TEST_F(KeyFileTest, ASecondChangeAtTheSameTimeIsSeen) {
  const auto file = Open();
  // As if the clock of the file system had not moved on: same size, same times, same file.
  struct stat before;
  ASSERT_EQ(stat(path_.c_str(), &before), 0);
  Write(LineOf(kNew));
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_TRUE(Has(*file, kNew));
}

TEST_F(KeyFileTest, ManyThreadsWhileTheFileChanges) {
  const auto file = Open();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        file->Look();
        const auto table = file->Table();
        // Every reading has one of the two keys, whatever file is moved in meanwhile.
        EXPECT_NE(table->FindKey(kOld) == nullptr, table->FindKey(kNew) == nullptr);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    MoveIn(LineOf(i % 2 == 0 ? kNew : kOld));
    if (i % 10 == 0) file->Reload();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(KeyFileTest, ReloadReadsAtOnceAndSaysSo) {
  const auto file = Open();
  EXPECT_NE(file->Table()->FindKey(kOld), nullptr);
  Write(LineOf(kNew));
  file->Reload();
  EXPECT_NE(file->Table()->FindKey(kNew), nullptr);
  TakeLog();
  file->Reload();
  EXPECT_THAT(TakeLog(), HasSubstr("read 1 keys")) << "whoever asked hears that it was done";
  Write("{");
  file->Reload();
  EXPECT_THAT(TakeLog(), HasSubstr("the keys stay"));
  file->Reload();
  EXPECT_THAT(TakeLog(), HasSubstr("the keys stay"));
}

TEST_F(KeyFileTest, WhatIsWrongAtTheStart) {
  const auto error = [](const std::string& path) {
    const absl::Status status = KeyFile::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error("/nonexistent/keys"), HasSubstr("/nonexistent/keys: No such file"));
  EXPECT_THAT(error("/dev/zero"), HasSubstr("not a regular file"));
  EXPECT_THAT(error("/"), HasSubstr("not a file"));
  Write(LineOf(kOld) + "{\"key\": \"" + kNew + "\", \"name\": 7}");
  EXPECT_THAT(error(path_), HasSubstr(path_ + ":2: name must be a string"));
  EXPECT_THAT(error(path_), Not(HasSubstr(kNew)));
}

}  // namespace
}  // namespace quire
