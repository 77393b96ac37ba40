#include "server/start/hub/hub_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/json/model_file.h"
#include "kernels/base/status_macros.h"
#include "server/start/hub/hub_error.h"
#include "server/start/hub/hub_name.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxRefBytes = 256;

absl::Status MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error && !fs::is_directory(folder)) return ExplainWriteError(folder.string(), error.value());
  return absl::OkStatus();
}

// A name beside `path` that no other process uses.
fs::path TemporaryName(const fs::path& path) {
  return fs::path(absl::StrCat(path.string(), ".", getpid(), ".tmp"));
}

absl::Status Rename(const fs::path& from, const fs::path& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(from.c_str());
  return ExplainWriteError(to.string(), error);
}

}  // namespace

HubCache::HubCache(const std::string& cache_folder, absl::string_view name, bool use_symlinks)
    : folder_(absl::StrCat(cache_folder, "/", CacheFolderName(name))),
      locks_(absl::StrCat(cache_folder, "/.locks/", CacheFolderName(name))),
      use_symlinks_(use_symlinks) {}

std::string HubCache::SnapshotFolder(absl::string_view commit) const {
  return absl::StrCat(folder_, "/snapshots/", commit);
}

std::string HubCache::BlobPath(absl::string_view etag) const {
  return absl::StrCat(folder_, "/blobs/", etag);
}

std::string HubCache::IncompletePath(absl::string_view etag) const {
  return absl::StrCat(folder_, "/blobs/", etag, ".quire.incomplete");
}

std::string HubCache::LockPath(absl::string_view etag) const {
  return absl::StrCat(locks_, "/", etag, ".lock");
}

std::string HubCache::CachedCommit(const std::string& revision) const {
  if (IsCommit(revision)) return revision;
  const absl::StatusOr<std::string> ref =
      ReadModelFile(folder_, absl::StrCat("refs/", revision), kMaxRefBytes);
  if (!ref.ok()) return "";
  std::string commit(absl::StripAsciiWhitespace(*ref));
  return IsCommit(commit) ? commit : "";
}

bool HubCache::HasFile(absl::string_view commit, const std::string& file, int64_t size) const {
  struct stat info;
  if (stat(absl::StrCat(SnapshotFolder(commit), "/", file).c_str(), &info) != 0) return false;
  return S_ISREG(info.st_mode) && (size < 0 || info.st_size == size);
}

std::optional<std::string> HubCache::MissingFile(absl::string_view commit,
                                                 const ModelNeeds& needs) const {
  std::vector<std::string> files = {"config.json"};
  if (needs.tokenizer) files.emplace_back("tokenizer.json");
  if (needs.weights && !HasFile(commit, kSingleWeightsFile, -1)) {
    const absl::StatusOr<std::string> index =
        ReadModelFile(SnapshotFolder(commit), kWeightsIndexFile, kMaxIndexBytes);
    const auto shards = index.ok() ? ShardNames(*index) : index.status();
    if (shards.ok()) files.insert(files.end(), shards->begin(), shards->end());
    if (!shards.ok()) files.emplace_back(kSingleWeightsFile);
  }
  const auto missing = std::find_if(files.begin(), files.end(), [&](const std::string& file) {
    return !HasFile(commit, file, -1);
  });
  if (missing == files.end()) return std::nullopt;
  return *missing;
}

absl::Status HubCache::MakeFolders() const {
  RETURN_IF_ERROR(MakeFolder(folder_ + "/blobs"));
  return MakeFolder(locks_);
}

absl::Status HubCache::AddToSnapshot(absl::string_view commit, const RepoFile& file) const {
  const fs::path pointer = fs::path(SnapshotFolder(commit)) / file.name;
  const fs::path blob = BlobPath(file.etag);
  RETURN_IF_ERROR(MakeFolder(pointer.parent_path()));
  const fs::path temporary = TemporaryName(pointer);
  const fs::path target = blob.lexically_relative(pointer.parent_path());
  unlink(temporary.c_str());
  if (use_symlinks_ && symlink(target.c_str(), temporary.c_str()) == 0) {
    return Rename(temporary, pointer);
  }
  if (use_symlinks_ && errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) {
    return ExplainWriteError(pointer.string(), errno);
  }
  return Rename(blob, pointer);
}

absl::Status HubCache::WriteRef(const std::string& revision, const std::string& commit) const {
  if (revision == commit || CachedCommit(revision) == commit) return absl::OkStatus();
  const fs::path path = fs::path(folder_) / "refs" / revision;
  RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  const fs::path temporary = TemporaryName(path);
  std::ofstream file(temporary, std::ios::binary);
  file << commit;
  file.close();
  if (!file) {
    const int error = errno;
    unlink(temporary.c_str());
    return ExplainWriteError(path.string(), error);
  }
  return Rename(temporary, path);
}

std::optional<int64_t> HubCache::FreeBytes() const {
  struct statvfs info;
  if (statvfs(folder_.c_str(), &info) != 0) return std::nullopt;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

FileLock::~FileLock() { Unlock(); }

absl::StatusOr<bool> FileLock::TryLock(const std::string& path) {
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  if (fd_ < 0) return ExplainWriteError(path, errno);
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EACCES) return true;
    Unlock();
    return false;
  }
  struct stat info;
  if (fstat(fd_, &info) == 0 && info.st_nlink == 0) {  // removed before we had it: not the lock
    Unlock();
    return false;
  }
  return true;
}

void FileLock::Unlock() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace quire
