#include "tools/client/text_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace quire::client {

namespace {

absl::Status Unreadable(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": cannot be read: ",
                   std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path, const char* kind) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return Unreadable(path);
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder, not ", kind));
  }
  std::ifstream file(path);
  if (!file) return Unreadable(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

}  // namespace quire::client
