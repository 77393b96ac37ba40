#include "engine/model/model_folder.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/model/json_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxRefBytes = 256;

bool HasConfig(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.json", error);
}

std::vector<fs::path> SnapshotsWithConfig(const fs::path& snapshots) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(snapshots, error)) {
    if (HasConfig(entry.path())) found.push_back(entry.path());
  }
  return found;
}

}  // namespace

absl::StatusOr<std::string> ResolveModelFolder(const std::string& path) {
  std::error_code error;
  const fs::path folder(path);
  if (!fs::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat(
        path, " is not a folder; pass a Hugging Face model folder that is on this machine"));
  }
  if (HasConfig(folder)) return path;

  const std::vector<fs::path> snapshots = SnapshotsWithConfig(folder / "snapshots");
  const absl::StatusOr<std::string> ref = ReadSmallFile(folder / "refs" / "main", kMaxRefBytes);
  for (const fs::path& snapshot : snapshots) {
    if (ref.ok() && snapshot.filename() == std::string(absl::StripAsciiWhitespace(*ref))) {
      return snapshot.string();
    }
  }
  if (snapshots.size() == 1) return snapshots[0].string();
  if (snapshots.size() > 1) {
    return absl::NotFoundError(absl::StrCat(path, " has ", snapshots.size(),
                                            " snapshots and refs/main names none of them; pass "
                                            "one of the folders in ",
                                            path, "/snapshots"));
  }
  return absl::NotFoundError(
      absl::StrCat(path,
                   " has no config.json; pass a Hugging Face model folder (config.json, "
                   "model.safetensors, tokenizer.json)"));
}

}  // namespace quire
