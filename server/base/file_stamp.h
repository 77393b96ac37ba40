// FileStamp: what the system says of a file, to see whether the file may have changed since it was
// read. Plain value; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace quire {

struct FileStamp {
  bool exists = false;
  uint64_t device = 0;
  uint64_t inode = 0;  // another file may have been moved to this place
  int64_t size_bytes = 0;
  absl::Time written;    // contents
  absl::Time changed;    // contents, or owner and mode
  absl::Time looked_at;  // when the system was asked

  // The stamp of the file that `path` leads to, through links. Look before you read: then the next
  // look notices a change in between.
  static FileStamp Of(const std::string& path);

  // Whether the file of `now`, looked at later, may hold other bytes than this one did. Also true
  // when this look came within two seconds of the last change: file systems have coarse clocks,
  // and a second change may show the same times.
  bool MayDiffer(const FileStamp& now) const;
};

}  // namespace quire
