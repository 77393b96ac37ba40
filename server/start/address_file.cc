#include "server/start/address_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

absl::Status WriteAddressFile(const std::string& path, const std::string& address) {
  const std::string line = address + "\n";
  const std::string unfinished = path + ".new";
  unlink(unfinished.c_str());  // of a process that was killed here
  const UniqueFd fd(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (fd.get() >= 0 &&
      write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
      rename(unfinished.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("--address-file: cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace quire
