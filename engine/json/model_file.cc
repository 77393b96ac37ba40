#include "engine/json/model_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/json/small_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// `path` and `folder` have no links.
bool IsWithin(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && relative != "." && *relative.begin() != "..";
}

// models--org--name/blobs of the snapshot models--org--name/snapshots/commit; else empty.
fs::path BlobsBeside(const fs::path& snapshot) {
  const fs::path snapshots = snapshot.parent_path();
  const fs::path repository = snapshots.parent_path();
  if (snapshots.filename() != "snapshots" ||
      !absl::StartsWith(repository.filename().string(), "models--")) {
    return {};
  }
  return repository / "blobs";
}

absl::Status CheckName(const std::string& path, absl::string_view name) {
  const fs::path relative{std::string(name)};
  bool is_plain = !name.empty() && relative.is_relative() && name.find('\0') == name.npos;
  for (const fs::path& part : relative) is_plain = is_plain && part != "..";
  if (is_plain) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, " is not the name of a file in the folder"));
}

absl::Status LeadsOut(const std::string& path, const fs::path& target, const fs::path& folder) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, " leads by a link to ", target.string(), ", outside the model's folder (",
      folder.string(), "), where nothing is read: pass the folder that the links lead to, or a ",
      "copy without links, which cp -rL makes (cp -rlL takes no space on the same file system)"));
}

// Explains why realpath could not follow a path: the file is not there, or a link leads to nothing.
absl::Status CannotFollow(const std::string& path, const std::error_code& error) {
  std::error_code ignored;
  const bool is_link = fs::is_symlink(path, ignored);
  if (is_link && error == std::errc::no_such_file_or_directory) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a link to ", fs::read_symlink(path, ignored).string(),
                     ", which is not there: copy or download the model again"));
  }
  const std::string message = absl::StrCat(path, ": ", error.message());
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    return absl::NotFoundError(message);
  }
  return absl::InvalidArgumentError(message);
}

// Opens `path`, which had no links when it was resolved: one that has come since is not followed.
absl::StatusOr<int> OpenWithoutLinks(const fs::path& path, const std::string& shown) {
  int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (at < 0) return FileError(shown);
  const absl::Cleanup close_last = [&at] { close(at); };
  const fs::path parent = path.parent_path().relative_path();
  for (const fs::path& part : parent) {
    const int next = openat(at, part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) return FileError(shown);
    close(std::exchange(at, next));
  }
  struct stat info;
  if (fstatat(at, path.filename().c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return FileError(shown);
  }
  if (!S_ISREG(info.st_mode)) {  // opening a device may do something
    return absl::InvalidArgumentError(absl::StrCat(
        shown, S_ISDIR(info.st_mode) ? " is a folder, not a file" : " is not a regular file"));
  }
  // O_NONBLOCK: opening a FIFO that has taken the file's place must not wait for a writer.
  const int fd =
      openat(at, path.filename().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return FileError(shown);
  return fd;
}

}  // namespace

absl::StatusOr<std::string> RealModelPath(const std::string& folder, absl::string_view name) {
  const std::string path = absl::StrCat(folder, "/", name);
  if (absl::Status status = CheckName(path, name); !status.ok()) return status;
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) return CannotFollow(folder, error);
  const fs::path real = fs::canonical(root / std::string(name), error);
  if (error) return CannotFollow(path, error);
  const fs::path blobs = BlobsBeside(root);
  if (IsWithin(real, root) || (!blobs.empty() && IsWithin(real, blobs))) return real.string();
  return LeadsOut(path, real, root);
}

absl::StatusOr<int> OpenModelFile(const std::string& folder, absl::string_view name) {
  const absl::StatusOr<std::string> real = RealModelPath(folder, name);
  if (!real.ok()) return real.status();
  return OpenWithoutLinks(*real, absl::StrCat(folder, "/", name));
}

absl::StatusOr<std::string> ReadModelFile(const std::string& folder, absl::string_view name,
                                          int64_t max_bytes) {
  const absl::StatusOr<int> fd = OpenModelFile(folder, name);
  if (!fd.ok()) return fd.status();
  const absl::Cleanup close_file = [&fd] { close(*fd); };
  return ReadOpenFile(*fd, absl::StrCat(folder, "/", name), max_bytes);
}

}  // namespace quire
