// The cache folder, laid out as Python's huggingface_hub lays it out, so that each finds what the
// other has downloaded:
//   models--org--name/refs/<branch or tag>        the commit
//   models--org--name/blobs/<etag>                contents
//   models--org--name/snapshots/<commit>/<file>   relative links to blobs
//   .locks/models--org--name/<etag>.lock          taken with flock while a blob is made
// Files in it were checked when they were written; a file appears in one step. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/start/hub/repo_info.h"

namespace quire {

inline constexpr int64_t kMaxIndexBytes = 32 << 20;  // of a list of shards

class HubCache {
 public:
  // `name`: "org/name", already checked. Nothing is created.
  HubCache(const std::string& cache_folder, absl::string_view name, bool use_symlinks);

  std::string SnapshotFolder(absl::string_view commit) const;
  std::string BlobPath(absl::string_view etag) const;
  std::string LockPath(absl::string_view etag) const;

  // The file of a blob that is half downloaded. Only Quire uses it: it is not <etag>.incomplete,
  // which huggingface_hub would take for the beginning of the file.
  std::string IncompletePath(absl::string_view etag) const;

  // The commit that a branch, tag or commit meant when it was last asked for; empty if never.
  std::string CachedCommit(const std::string& revision) const;

  // Whether the file is in the snapshot, with that size unless it is negative.
  bool HasFile(absl::string_view commit, const std::string& file, int64_t size) const;

  // The name of the first file that a start needs and the snapshot lacks; nothing if it is whole.
  std::optional<std::string> MissingFile(absl::string_view commit, const ModelNeeds& needs) const;

  // Makes blobs/ and the folders of the locks. The path that cannot be written is in the error.
  absl::Status MakeFolders() const;

  // Puts the blob into the snapshot under the file's name; without links it is moved there.
  absl::Status AddToSnapshot(absl::string_view commit, const RepoFile& file) const;

  // Remembers the commit of `revision`. A commit needs no remembering.
  absl::Status WriteRef(const std::string& revision, const std::string& commit) const;

  // Bytes free for this user on the disk of the cache; nothing if the system does not tell.
  std::optional<int64_t> FreeBytes() const;

 private:
  const std::string folder_;  // cache_folder/models--org--name
  const std::string locks_;
  const bool use_symlinks_;
};

// A file lock as Python's filelock takes it: flock on a file that stays. Released by the
// destructor, and by the kernel when the process ends in whatever way. One thread.
class FileLock {
 public:
  FileLock() = default;
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // True: the lock is ours. False: another process has it. On a disk without locks it is ours as
  // well: the check of a download finds the damage that two writers did to each other.
  absl::StatusOr<bool> TryLock(const std::string& path);
  void Unlock();

 private:
  int fd_ = -1;
};

}  // namespace quire
