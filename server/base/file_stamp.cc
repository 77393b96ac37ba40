#include "server/base/file_stamp.h"

#include <sys/stat.h>

#include "kernels/base/clock.h"

namespace quire {

namespace {

constexpr absl::Duration kCoarsestClock = absl::Seconds(2);

}  // namespace

FileStamp FileStamp::Of(const std::string& path) {
  FileStamp stamp;
  stamp.looked_at = WallNow();
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return stamp;
  stamp.exists = true;
  stamp.device = info.st_dev;
  stamp.inode = info.st_ino;
  stamp.size_bytes = info.st_size;
  stamp.written = absl::TimeFromTimespec(info.st_mtim);
  stamp.changed = absl::TimeFromTimespec(info.st_ctim);
  return stamp;
}

bool FileStamp::MayDiffer(const FileStamp& now) const {
  if (exists != now.exists) return true;
  if (!exists) return false;
  return device != now.device || inode != now.inode || size_bytes != now.size_bytes ||
         written != now.written || changed != now.changed || looked_at - changed < kCoarsestClock;
}

}  // namespace quire
