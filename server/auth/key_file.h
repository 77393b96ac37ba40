// KeyFile: the file of --api-key-file, followed while the server runs: a change is noticed within a
// second of use. A file that cannot be read, or is not as it should be, leaves the keys as they
// were and is one line in the log. Any thread.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/auth/key_table.h"
#include "server/base/file_stamp.h"
#include "server/base/throttle.h"

namespace quire {

class KeyFile {
 public:
  // Reads the file. INVALID_ARGUMENT, naming file, line and member.
  static absl::StatusOr<std::unique_ptr<KeyFile>> Open(const std::string& path);

  // The keys as of `now`, for one call.
  std::shared_ptr<const KeyTable> Table(absl::Time now);

  // Reads the file again now, whatever its times say: SIGHUP.
  void Reload();

 private:
  explicit KeyFile(std::string path) : path_(std::move(path)) {}
  absl::StatusOr<KeyTable> Read(Sha256* digest) const;
  void ReadAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reload_mutex_);

  const std::string path_;
  Throttle looks_{absl::Seconds(1)};

  // Held while the file is read, by whoever noticed; others go on with the keys there are.
  absl::Mutex reload_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  FileStamp stamp_ ABSL_GUARDED_BY(reload_mutex_);        // of the last reading, good or not
  Sha256 digest_ ABSL_GUARDED_BY(reload_mutex_) = {};     // of what the last reading read
  std::string complaint_ ABSL_GUARDED_BY(reload_mutex_);  // what is wrong with it, if anything

  absl::Mutex mutex_;
  std::shared_ptr<const KeyTable> table_ ABSL_GUARDED_BY(mutex_);  // never null after Open
};

}  // namespace quire
