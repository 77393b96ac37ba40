#include "engine/json/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMaxBytes = 100;

class ModelFileTest : public testing::Test {
 protected:
  ModelFileTest() {
    outside_.Write("secret", "the secret");
    folder_.Write("config.json", "{}");
  }

  std::string Outside(const std::string& name) const { return outside_.path() + "/" + name; }
  void Link(const std::string& target, const std::string& name) const {
    const fs::path link = fs::path(folder_.path()) / name;
    fs::create_directories(link.parent_path());
    fs::create_symlink(target, link);
  }
  // The file's text, or why it is not read.
  std::string Read(const std::string& name) const { return ReadFrom(folder_.path(), name); }
  static std::string ReadFrom(const std::string& folder, const std::string& name) {
    const auto text = ReadModelFile(folder, name, kMaxBytes);
    return text.ok() ? *text : text.status().ToString();
  }

  const TempFolder outside_;
  const TempFolder folder_;
};

TEST_F(ModelFileTest, ReadsFilesOfTheFolder) {
  EXPECT_EQ(Read("config.json"), "{}");
  folder_.Write("more/file", "x");
  EXPECT_EQ(Read("more/file"), "x");
  folder_.Write("long", std::string(101, 'x'));
  EXPECT_THAT(Read("long"), AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("at most 100")));
  EXPECT_THAT(Read("absent"), HasSubstr("NOT_FOUND"));
  EXPECT_THAT(Read("config.json/below"), HasSubstr("NOT_FOUND"));
  EXPECT_THAT(ReadFrom(Outside("absent"), "x"), HasSubstr("NOT_FOUND"));
}

TEST_F(ModelFileTest, FollowsLinksWithinTheFolder) {
  Link("config.json", "alone");
  Link("alone", "twice");
  folder_.Write("data/file", "in a folder");
  Link("data", "linked");
  Link(folder_.path() + "/data/file", "absolute");
  EXPECT_EQ(Read("twice"), "{}");
  EXPECT_EQ(Read("linked/file"), "in a folder");
  EXPECT_EQ(Read("absolute"), "in a folder");
}

// As Kubernetes mounts a ConfigMap.
TEST_F(ModelFileTest, FollowsTheLinksOfAMountedVolume) {
  folder_.Write("..2026_11_26/tokenizer.json", "mounted");
  Link("..2026_11_26", "..data");
  Link("..data/tokenizer.json", "tokenizer.json");
  EXPECT_EQ(Read("tokenizer.json"), "mounted");
}

TEST_F(ModelFileTest, TheFolderItselfMayBeALink) {
  const std::string link = Outside("model");
  fs::create_symlink(folder_.path(), link);
  EXPECT_EQ(ReadFrom(link, "config.json"), "{}");
  EXPECT_EQ(ReadFrom(link + "/", "config.json"), "{}");
}

TEST_F(ModelFileTest, NoLinkLeavesTheFolder) {
  Link(Outside("secret"), "tokenizer.json");
  Link("../" + fs::path(Outside("secret")).parent_path().filename().string() + "/secret",
       "relative");
  Link("tokenizer.json", "through");
  Link(outside_.path(), "folder");
  Link("..", "up");
  Link("/", "root");
  for (const char* name : {"tokenizer.json", "relative", "through", "folder/secret"}) {
    EXPECT_THAT(Read(name),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(folder_.path() + "/" + name),
                      HasSubstr("leads by a link to"), HasSubstr(outside_.path() + "/secret"),
                      HasSubstr("cp -rL")))
        << name;
  }
  for (const char* name : {"root/etc/passwd", "root/proc/self/environ", "root/dev/zero", "up"}) {
    EXPECT_THAT(Read(name), HasSubstr("outside the model's folder")) << name;
  }
}

// A folder whose name begins with that of the model's is not in it.
TEST_F(ModelFileTest, ANeighbourIsOutside) {
  const TempFolder models;
  models.Write("model/config.json", "{}");
  models.Write("model-secret/file", "the secret");
  fs::create_symlink("../model-secret/file", models.path() + "/model/link");
  EXPECT_THAT(ReadFrom(models.path() + "/model", "link"), HasSubstr("outside the model's folder"));
}

TEST_F(ModelFileTest, NamesStayInTheFolder) {
  const std::string up = "../" + fs::path(Outside("secret")).parent_path().filename().string();
  for (const std::string& name : {up + "/secret", "x/../" + up + "/secret", Outside("secret"),
                                  std::string(".."), std::string(), std::string("a\0b", 3)}) {
    EXPECT_THAT(Read(name), HasSubstr("is not the name of a file in the folder")) << name;
  }
}

TEST_F(ModelFileTest, ALinkToNothingIsNoAbsentFile) {
  Link("gone", "generation_config.json");
  Link("loop", "loop");
  EXPECT_THAT(
      Read("generation_config.json"),
      AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("is a link to gone, which is not there")));
  EXPECT_THAT(Read("loop"), HasSubstr("INVALID_ARGUMENT"));
}

TEST_F(ModelFileTest, ReadsRegularFilesOnly) {
  ASSERT_EQ(mkfifo((folder_.path() + "/fifo").c_str(), 0600), 0);
  Link("fifo", "link");
  folder_.Write("data/file", "x");
  EXPECT_THAT(Read("fifo"), HasSubstr("is not a regular file"));
  EXPECT_THAT(Read("link"), HasSubstr("is not a regular file"));
  EXPECT_THAT(Read("data"), HasSubstr("is a folder, not a file"));
}

class SnapshotTest : public ModelFileTest {
 protected:
  SnapshotTest() {
    cache_.Write("models--org--name/blobs/1234", "a blob");
    cache_.Write("models--org--other/blobs/5678", "another's");
    fs::create_directories(snapshot_);
  }
  void LinkInSnapshot(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, snapshot_ + "/" + name);
  }

  const TempFolder cache_;
  const std::string snapshot_ = cache_.path() + "/models--org--name/snapshots/0123";
};

TEST_F(SnapshotTest, LinksOfTheHubsCacheLeadToItsBlobs) {
  LinkInSnapshot("../../blobs/1234", "config.json");
  EXPECT_EQ(ReadFrom(snapshot_, "config.json"), "a blob");
  const std::string link = Outside("model");
  fs::create_symlink(snapshot_, link);
  EXPECT_EQ(ReadFrom(link, "config.json"), "a blob");
}

TEST_F(SnapshotTest, AndNowhereElse) {
  LinkInSnapshot("../../../models--org--other/blobs/5678", "other");
  LinkInSnapshot(Outside("secret"), "secret");
  fs::create_symlink(Outside("secret"), cache_.path() + "/models--org--name/blobs/9abc");
  LinkInSnapshot("../../blobs/9abc", "blob");
  for (const char* name : {"other", "secret", "blob"}) {
    EXPECT_THAT(ReadFrom(snapshot_, name), HasSubstr("outside the model's folder")) << name;
  }
}

// A folder that only looks like a cache.
TEST_F(SnapshotTest, BlobsMustBeAFolderOfTheCache) {
  const TempFolder evil;
  const std::string snapshot = evil.path() + "/models--a--b/snapshots/1";
  fs::create_directories(snapshot);
  fs::create_symlink(outside_.path(), evil.path() + "/models--a--b/blobs");
  fs::create_symlink("../../blobs/secret", snapshot + "/tokenizer.json");
  EXPECT_THAT(ReadFrom(snapshot, "tokenizer.json"), HasSubstr("outside the model's folder"));
  fs::create_directories(evil.path() + "/plain/snapshots/1");
  evil.Write("plain/blobs/file", "x");
  fs::create_symlink("../../blobs/file", evil.path() + "/plain/snapshots/1/file");
  EXPECT_THAT(ReadFrom(evil.path() + "/plain/snapshots/1", "file"),
              HasSubstr("outside the model's folder"));
}

}  // namespace
}  // namespace quire
