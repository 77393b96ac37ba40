#include "tools/bench/result_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/wire/transport/unique_fd.h"
#include "tools/bench/failure.h"
#include "tools/bench/json_values.h"

namespace quire::bench {

namespace {

namespace fs = std::filesystem;

absl::Status NotWritable(const std::string& flag, const std::string& path, const std::string& why) {
  return UsageError(absl::StrCat(flag, ": cannot write \"", path, "\": ", why));
}

// 0, or the error number.
int WriteAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    done += static_cast<size_t>(count);
  }
  return 0;
}

}  // namespace

ResultFile::ResultFile(std::string path, std::string part_path)
    : path_(std::move(path)), part_path_(std::move(part_path)) {
  if (!part_path_.empty()) {
    removal_.emplace([part = part_path_] { unlink(part.c_str()); });
  }
}

absl::StatusOr<std::unique_ptr<ResultFile>> ResultFile::Open(const std::string& flag,
                                                             const std::string& path) {
  if (path.empty()) return UsageError(absl::StrCat(flag, ": the path is empty; give a file"));
  if (path == "-") return Open(flag, "/dev/stdout");
  struct stat info = {};
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return NotWritable(flag, path, "it is a folder");
  if (exists && access(path.c_str(), W_OK) != 0) {
    return NotWritable(flag, path, std::strerror(errno));
  }
  // Standard output may be a regular file, which others have open.
  if ((exists && !S_ISREG(info.st_mode)) || path.starts_with("/dev/")) {
    return std::unique_ptr<ResultFile>(new ResultFile(path, ""));
  }
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(path, error);
  if (error) return NotWritable(flag, path, error.message());
  const std::string part = absl::StrCat(resolved.string(), ".part-", getpid());
  const UniqueFd fd(open(part.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666));
  if (!fd.valid()) {
    return NotWritable(flag, path,
                       errno == ENOENT ? "there is no such folder" : std::strerror(errno));
  }
  if (exists) fchmod(fd.get(), info.st_mode & 07777);
  return std::unique_ptr<ResultFile>(new ResultFile(resolved.string(), part));
}

absl::Status ResultFile::Error(int error_number) const {
  return WithExitCode(kUnavailable,
                      absl::UnavailableError(absl::StrCat("cannot write the results to \"", path_,
                                                          "\": ", std::strerror(error_number))));
}

absl::Status ResultFile::Write(const std::string& text) {
  const std::string& target = part_path_.empty() ? path_ : part_path_;
  // A file that is written directly may have other contents, such as this run's text on standard
  // output.
  const int begin = part_path_.empty() ? O_APPEND : O_TRUNC;
  const UniqueFd fd(open(target.c_str(), O_WRONLY | O_CLOEXEC | begin));
  if (!fd.valid()) return Error(errno);
  if (const int error_number = WriteAll(fd.get(), text); error_number != 0) {
    return Error(error_number);
  }
  if (part_path_.empty()) return absl::OkStatus();
  if (fsync(fd.get()) != 0) return Error(errno);
  if (rename(part_path_.c_str(), path_.c_str()) != 0) return Error(errno);
  removal_->Keep();
  part_path_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ResultFile>> OpenResultFile(const std::string& flag,
                                                           const std::optional<std::string>& path) {
  if (!path.has_value()) return std::unique_ptr<ResultFile>();
  auto file = ResultFile::Open(flag, *path);
  std::error_code error;
  // Pages can be made again, measurements cannot.
  if (file.ok() && flag == "--json" && fs::is_regular_file(*path, error)) {
    Warn(absl::StrCat("--json: \"", *path,
                      "\" will be replaced when this run ends; name another file to keep it"));
  }
  return file;
}

absl::Status WriteJson(const nlohmann::ordered_json& json, ResultFile* file) {
  if (file == nullptr) return absl::OkStatus();
  return file->Write(LineOf(json, /*indent=*/2) + "\n");
}

}  // namespace quire::bench
