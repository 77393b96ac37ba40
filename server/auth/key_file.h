// KeyFile: the file of --api-key-file, read again while the server runs. If the file cannot be read
// or is invalid, the keys stay as they were and the log gets one line. Any thread; Look and Reload
// may wait for the disk, so no event loop may call them.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/auth/key_table.h"
#include "server/base/file_stamp.h"

namespace quire {

class KeyFile {
 public:
  // Reads the file. INVALID_ARGUMENT, naming file, line and member.
  static absl::StatusOr<std::unique_ptr<KeyFile>> Open(const std::string& path);

  // The keys as last read, for one call. Never waits for the file.
  std::shared_ptr<const KeyTable> Table();

  // Reads the file again if it may have changed.
  void Look();
  // Reads the file again whatever its times say: SIGHUP.
  void Reload();

 private:
  explicit KeyFile(std::string path) : path_(std::move(path)) {}
  absl::StatusOr<KeyTable> Read(Sha256* digest) const;
  void ReadAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reload_mutex_);

  const std::string path_;

  // Held while the file is read; callers go on with the keys there are.
  absl::Mutex reload_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  FileStamp stamp_ ABSL_GUARDED_BY(reload_mutex_);        // of the last reading, good or not
  Sha256 digest_ ABSL_GUARDED_BY(reload_mutex_) = {};     // digest of the last reading
  std::string complaint_ ABSL_GUARDED_BY(reload_mutex_);  // what is wrong with it, if anything

  absl::Mutex mutex_;
  std::shared_ptr<const KeyTable> table_ ABSL_GUARDED_BY(mutex_);  // never null after Open
};

}  // namespace quire
