#include "engine/model/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/model/test_files.h"

namespace quire {
namespace {

using testing::HasSubstr;

TEST(ResolveModelFolder, AModelFolderIsItself) {
  const TempFolder folder;
  folder.Write("config.json", "{}");
  EXPECT_EQ(*ResolveModelFolder(folder.path()), folder.path());
}

TEST(ResolveModelFolder, TheCacheFolderIsItsMainSnapshot) {
  const TempFolder folder;
  folder.Write("blobs/1234", "{}");
  folder.Write("refs/main", "bbbb\n");
  for (const char* snapshot : {"aaaa", "bbbb"}) {
    const std::string path = folder.path() + "/snapshots/" + snapshot;
    std::filesystem::create_directories(path);
    std::filesystem::create_symlink("../../blobs/1234", path + "/config.json");
  }
  EXPECT_EQ(*ResolveModelFolder(folder.path()), folder.path() + "/snapshots/bbbb");
  folder.Write("refs/main", "../../elsewhere");
  const absl::Status status = ResolveModelFolder(folder.path()).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("has 2 snapshots and refs/main names none of them"));
}

TEST(ResolveModelFolder, TheOnlySnapshotNeedsNoRef) {
  const TempFolder folder;
  folder.Write("snapshots/aaaa/config.json", "{}");
  folder.Write("snapshots/partial/model.safetensors", "");
  EXPECT_EQ(*ResolveModelFolder(folder.path()), folder.path() + "/snapshots/aaaa");
}

TEST(ResolveModelFolder, SaysWhatIsMissing) {
  const TempFolder folder;
  folder.Write("file", "");
  EXPECT_THAT(ResolveModelFolder(folder.path()).status().message(),
              HasSubstr("has no config.json"));
  EXPECT_THAT(ResolveModelFolder(folder.path() + "/file").status().message(),
              HasSubstr("is not a folder"));
  EXPECT_TRUE(absl::IsNotFound(ResolveModelFolder(folder.path() + "/absent").status()));
}

}  // namespace
}  // namespace quire
