#include "server/start/hub/incomplete_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// "hello, world", and as git names it.
constexpr char kText[] = "hello, world";
constexpr char kSha256[] = "09ca7e4eaa6e8ae9c7d261167129184883644d07dfba7cbfbc4c8a2e08360d5b";
constexpr char kGitId[] = "8c01d89ae06311834ee4b1fab2f0414d35f01102";
constexpr int64_t kPartBytes = 64 << 20;

class IncompleteFileTest : public testing::Test {
 protected:
  std::unique_ptr<IncompleteFile> Open(const RepoFile& file) {
    auto opened = IncompleteFile::Open(path(), file);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  std::string path() const { return folder_.path() + "/half"; }

  const TempFolder folder_;
};

TEST_F(IncompleteFileTest, AWholeFileGetsItsName) {
  for (const char* etag : {kSha256, kGitId, "no-digest"}) {
    const auto file = Open({"name", 12, etag});
    EXPECT_EQ(*file->Write(0, "hello"), 5);
    EXPECT_EQ(file->Missing(0).begin, 5);
    EXPECT_EQ(*file->Write(5, ", world"), 7);
    EXPECT_TRUE(*file->IsGood()) << etag;
    ASSERT_TRUE(file->MoveTo(folder_.path() + "/whole").ok());
    EXPECT_EQ(ReadWholeFile(folder_.path() + "/whole"), kText);
    EXPECT_FALSE(fs::exists(path()));
  }
}

TEST_F(IncompleteFileTest, WrongBytesAreFoundAndForgotten) {
  for (const char* etag : {kSha256, kGitId}) {
    const auto file = Open({"name", 12, etag});
    ASSERT_TRUE(file->Write(0, "hello, World").ok());
    EXPECT_FALSE(*file->IsGood());
    ASSERT_TRUE(file->Restart().ok());
    EXPECT_EQ(file->NumDone(), 0);
    ASSERT_TRUE(file->Write(0, kText).ok());
    EXPECT_TRUE(*file->IsGood());
    fs::remove(path());
  }
}

TEST_F(IncompleteFileTest, AnEmptyFile) {
  const auto file = Open({"name", 0, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"});
  EXPECT_EQ(file->num_parts(), 0);
  EXPECT_TRUE(*file->IsGood());
  ASSERT_TRUE(file->MoveTo(folder_.path() + "/whole").ok());
  EXPECT_EQ(fs::file_size(folder_.path() + "/whole"), 0U);
}

TEST_F(IncompleteFileTest, PartsAreGoneOnWithByTheNextProcess) {
  const RepoFile large = {"name", 2 * kPartBytes + 5, kSha256};
  const std::string megabyte(1 << 20, 'x');
  {
    const auto file = Open(large);
    ASSERT_EQ(file->num_parts(), 3);
    ASSERT_TRUE(file->Write(kPartBytes, megabyte).ok());
    ASSERT_TRUE(file->Write(kPartBytes + (1 << 20), "more").ok());  // too little to be remembered
    ASSERT_TRUE(file->Write(2 * kPartBytes, "whole").ok());
  }
  const auto file = Open(large);
  EXPECT_EQ(file->Missing(0).begin, 0);
  EXPECT_EQ(file->Missing(1).begin, kPartBytes + (1 << 20));
  EXPECT_EQ(file->Missing(1).end, 2 * kPartBytes);
  EXPECT_EQ(file->Missing(2).begin, file->Missing(2).end);
  EXPECT_EQ(file->NumDone(), (1 << 20) + 5);
}

TEST_F(IncompleteFileTest, BytesMayGoOnIntoTheNextPart) {
  const auto file = Open({"name", kPartBytes + 10, kSha256});
  const std::string bytes(kPartBytes + 4, 'x');
  EXPECT_EQ(*file->Write(0, bytes), kPartBytes + 4);
  EXPECT_EQ(file->Missing(0).begin, file->Missing(0).end);
  EXPECT_EQ(file->Missing(1).begin, kPartBytes + 4);
  EXPECT_EQ(*file->Write(kPartBytes, "again and."), 6);  // what was there is not counted twice
}

TEST_F(IncompleteFileTest, ARestThatIsNotOursBeginsAnew) {
  for (const std::string& rest :
       std::vector<std::string>{std::string("x"), std::string(12, 'x'), std::string(100, '\xff')}) {
    folder_.Write("half", rest);
    EXPECT_EQ(Open({"name", 12, kSha256})->NumDone(), 0);
  }
  { ASSERT_TRUE(Open({"name", 12, kSha256})->Write(0, kText).ok()); }
  EXPECT_EQ(Open({"name", 12, kSha256})->NumDone(), 12);
  EXPECT_EQ(Open({"name", 11, kSha256})->NumDone(), 0);  // a file of another size
}

TEST_F(IncompleteFileTest, AFolderThatCannotBeWritten) {
  const absl::Status status =
      IncompleteFile::Open("/proc/nowhere/half", {"name", 12, kSha256}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), testing::HasSubstr("--download-dir"));
}

}  // namespace
}  // namespace quire
