#include "server/start/hub/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr char kCommit[] = "0123456789abcdef0123456789abcdef01234567";
constexpr char kOther[] = "1123456789abcdef0123456789abcdef01234567";

class HubCacheTest : public testing::Test {
 protected:
  void WriteSnapshot(const std::string& file, const std::string& contents) {
    folder_.Write(absl::StrCat("models--org--name/snapshots/", kCommit, "/", file), contents);
  }
  std::string InRepo(const std::string& path) const {
    return folder_.path() + "/models--org--name/" + path;
  }

  const TempFolder folder_;
  const HubCache cache_{folder_.path(), "org/name", true};
};

TEST_F(HubCacheTest, RefsAreCommits) {
  EXPECT_EQ(cache_.CachedCommit("main"), "");
  EXPECT_EQ(cache_.CachedCommit(kCommit), kCommit);
  ASSERT_TRUE(cache_.WriteRef("main", kCommit).ok());
  ASSERT_TRUE(cache_.WriteRef("refs/pr/1", kOther).ok());
  EXPECT_EQ(cache_.CachedCommit("main"), kCommit);
  EXPECT_EQ(ReadWholeFile(InRepo("refs/refs/pr/1")), kOther);
  ASSERT_TRUE(cache_.WriteRef("main", kOther).ok());
  EXPECT_EQ(cache_.CachedCommit("main"), kOther);
  EXPECT_EQ(std::distance(fs::directory_iterator(InRepo("refs")), {}), 2);  // nothing is left over
  folder_.Write("models--org--name/refs/main", "../../elsewhere");
  EXPECT_EQ(cache_.CachedCommit("main"), "");
}

TEST_F(HubCacheTest, ASnapshotIsWholeWithWhatAStartReads) {
  EXPECT_EQ(cache_.MissingFile(kCommit, {}), "config.json");
  WriteSnapshot("config.json", "{}");
  EXPECT_EQ(cache_.MissingFile(kCommit, {.weights = false, .tokenizer = false}), std::nullopt);
  EXPECT_EQ(cache_.MissingFile(kCommit, {.weights = false}), "tokenizer.json");
  WriteSnapshot("tokenizer.json", "{}");
  EXPECT_EQ(cache_.MissingFile(kCommit, {}), "model.safetensors");
  WriteSnapshot("model.safetensors.index.json",
                R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  WriteSnapshot("a.safetensors", "x");
  EXPECT_EQ(cache_.MissingFile(kCommit, {}), "b.safetensors");
  WriteSnapshot("b.safetensors", "x");
  EXPECT_EQ(cache_.MissingFile(kCommit, {}), std::nullopt);
  fs::remove(cache_.SnapshotFolder(kCommit) + "/model.safetensors.index.json");
  WriteSnapshot("model.safetensors", "x");
  EXPECT_EQ(cache_.MissingFile(kCommit, {}), std::nullopt);
}

TEST_F(HubCacheTest, FilesAreRelativeLinksToBlobs) {
  ASSERT_TRUE(cache_.MakeFolders().ok());
  folder_.Write("models--org--name/blobs/abc", "{}");
  const RepoFile file = {"templates/x.jinja", 2, "abc"};
  ASSERT_TRUE(cache_.AddToSnapshot(kCommit, file).ok());
  const std::string path = cache_.SnapshotFolder(kCommit) + "/templates/x.jinja";
  EXPECT_EQ(fs::read_symlink(path), "../../../blobs/abc");
  EXPECT_TRUE(cache_.HasFile(kCommit, file.name, 2));
  EXPECT_FALSE(cache_.HasFile(kCommit, file.name, 3));
  ASSERT_TRUE(cache_.AddToSnapshot(kCommit, file).ok());  // again
  fs::remove(InRepo("blobs/abc"));
  EXPECT_FALSE(cache_.HasFile(kCommit, file.name, -1));  // a link to nothing
}

TEST_F(HubCacheTest, WithoutLinksTheBlobIsMoved) {
  const HubCache cache(folder_.path(), "org/name", false);
  ASSERT_TRUE(cache.MakeFolders().ok());
  folder_.Write("models--org--name/blobs/abc", "{}");
  ASSERT_TRUE(cache.AddToSnapshot(kCommit, {"config.json", 2, "abc"}).ok());
  EXPECT_FALSE(fs::is_symlink(cache.SnapshotFolder(kCommit) + "/config.json"));
  EXPECT_TRUE(cache.HasFile(kCommit, "config.json", 2));
}

TEST_F(HubCacheTest, ALockIsHeldOnce) {
  ASSERT_TRUE(cache_.MakeFolders().ok());
  FileLock first, second;
  EXPECT_TRUE(*first.TryLock(cache_.LockPath("abc")));
  EXPECT_FALSE(*second.TryLock(cache_.LockPath("abc")));
  EXPECT_TRUE(*second.TryLock(cache_.LockPath("def")));
  first.Unlock();
  FileLock third;
  EXPECT_TRUE(*third.TryLock(cache_.LockPath("abc")));
  EXPECT_TRUE(fs::exists(folder_.path() + "/.locks/models--org--name/abc.lock"));
}

}  // namespace
}  // namespace quire
