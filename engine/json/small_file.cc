#include "engine/json/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/json/json_reader.h"

namespace quire {

absl::Status FileError(const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  return absl::InvalidArgumentError(message);
}

absl::StatusOr<std::string> ReadOpenFile(int fd, const std::string& path, int64_t max_bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError(path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, S_ISDIR(info.st_mode) ? " is a folder, not a file" : " is not a regular file"));
  }
  if (info.st_size > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", WithCommas(info.st_size),
                                                   " bytes; at most ", WithCommas(max_bytes),
                                                   " are read"));
  }
  std::string text(info.st_size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = pread(fd, text.data() + done, text.size() - done, done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(path);
    if (count == 0) break;  // became shorter since fstat
    done += count;
  }
  text.resize(done);
  return text;
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t max_bytes) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError(path);
  absl::StatusOr<std::string> text = ReadOpenFile(fd, path, max_bytes);
  close(fd);
  return text;
}

}  // namespace quire
