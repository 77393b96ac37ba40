// A file that comes in parts, and that survives the process. Several threads write one part each.
// Behind its data the file says how much of every part is there. When it is whole it is checked,
// and only then gets its name.
#pragma once

#include <openssl/evp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/start/hub/repo_info.h"

namespace quire {

class IncompleteFile {
 public:
  // Goes on where an earlier process stopped, if `path` is the file of that process. The file's
  // size and etag are known. Only one process at a time may have it open.
  static absl::StatusOr<std::unique_ptr<IncompleteFile>> Open(const std::string& path,
                                                              const RepoFile& file);
  ~IncompleteFile();
  IncompleteFile(const IncompleteFile&) = delete;
  IncompleteFile& operator=(const IncompleteFile&) = delete;

  int num_parts() const { return static_cast<int>(done_.size()); }
  int64_t size() const { return size_; }
  int64_t NumDone() const;

  // The bytes of a part that are missing: [begin, end), empty when it is whole. Any thread.
  struct Range {
    int64_t begin, end;
  };
  Range Missing(int part) const;

  // Writes bytes at a position no later than the first missing byte of its part; they may go
  // on into the next parts. Returns how many of them were missing. One thread per part.
  absl::StatusOr<int64_t> Write(int64_t position, absl::string_view bytes);

  // Checks the bytes that are there without a gap from the beginning, unless another thread does
  // so. Any thread; if it is called now and then, it leaves little to do at the end.
  absl::Status CheckAhead();

  // To be called when all parts are whole: whether the bytes are the ones that the etag names.
  absl::StatusOr<bool> IsGood();

  // Gives the checked file its name. No further call.
  absl::Status MoveTo(const std::string& path);

  // Forgets all bytes.
  absl::Status Restart();

 private:
  IncompleteFile(std::string path, int fd, const RepoFile& file);

  int64_t PartBegin(int part) const;
  int64_t PartEnd(int part) const;
  void ReadState();
  absl::Status WriteState(int part);
  absl::Status CheckAheadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartDigest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const int fd_;
  const int64_t size_;
  const std::string etag_;
  std::vector<std::atomic<int64_t>> done_;  // per part: bytes from its beginning
  std::vector<int64_t> saved_;              // per part: as in the file; the part's thread
  absl::Mutex mutex_;
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest_ ABSL_GUARDED_BY(mutex_);
  int64_t num_checked_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire
