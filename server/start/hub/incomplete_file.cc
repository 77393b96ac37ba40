#include "server/start/hub/incomplete_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/start/hub/hub_error.h"
#include "server/start/hub/hub_name.h"

namespace quire {
namespace {

// Large enough that asking for parts costs the hub little, small enough that eight connections
// share a file of 1 GB.
constexpr int64_t kPartBytes = int64_t{64} << 20;
constexpr int64_t kSaveEvery = int64_t{1} << 20;
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr uint64_t kMagic = 0x31706d6f63697551;  // "Quicomp1"

// Behind the data: this, then one int64 per part.
struct State {
  uint64_t magic;
  int64_t part_bytes, size;
};

bool WriteAll(int fd, const void* data, size_t size, int64_t position) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = pwrite(fd, from, size, position);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    from += count;
    position += count;
    size -= count;
  }
  return true;
}

bool ReadAll(int fd, void* data, size_t size, int64_t position) {
  char* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = pread(fd, to, size, position);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0) errno = EIO;
      return false;
    }
    to += count;
    position += count;
    size -= count;
  }
  return true;
}

}  // namespace

IncompleteFile::IncompleteFile(std::string path, int fd, const RepoFile& file)
    : path_(std::move(path)),
      fd_(fd),
      size_(file.size),
      etag_(file.etag),
      done_((file.size + kPartBytes - 1) / kPartBytes),
      saved_(done_.size(), 0),
      digest_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  CHECK(digest_ != nullptr) << "out of memory";
}

IncompleteFile::~IncompleteFile() { close(fd_); }

absl::StatusOr<std::unique_ptr<IncompleteFile>> IncompleteFile::Open(const std::string& path,
                                                                     const RepoFile& file) {
  CHECK_GE(file.size, 0);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return ExplainWriteError(path, errno);
  std::unique_ptr<IncompleteFile> incomplete(new IncompleteFile(path, fd, file));
  incomplete->ReadState();
  {
    absl::MutexLock lock(&incomplete->mutex_);
    incomplete->StartDigest();
  }
  if (incomplete->NumDone() == 0) RETURN_IF_ERROR(incomplete->Restart());
  return incomplete;
}

int64_t IncompleteFile::PartBegin(int part) const { return part * kPartBytes; }

int64_t IncompleteFile::PartEnd(int part) const {
  return std::min(size_, PartBegin(part) + kPartBytes);
}

int64_t IncompleteFile::NumDone() const {
  int64_t sum = 0;
  for (const auto& done : done_) sum += done;
  return sum;
}

IncompleteFile::Range IncompleteFile::Missing(int part) const {
  return {PartBegin(part) + done_[part], PartEnd(part)};
}

// Whatever is not as we write it counts as nothing done.
void IncompleteFile::ReadState() {
  State state;
  if (!ReadAll(fd_, &state, sizeof(state), size_) || state.magic != kMagic ||
      state.part_bytes != kPartBytes || state.size != size_ ||
      !ReadAll(fd_, saved_.data(), saved_.size() * sizeof(int64_t), size_ + sizeof(state))) {
    std::fill(saved_.begin(), saved_.end(), 0);
  }
  for (int part = 0; part < num_parts(); ++part) {
    const bool possible = saved_[part] >= 0 && saved_[part] <= PartEnd(part) - PartBegin(part);
    done_[part] = saved_[part] = possible ? saved_[part] : 0;
  }
}

absl::Status IncompleteFile::Restart() {
  absl::MutexLock lock(&mutex_);
  for (auto& done : done_) done = 0;
  std::fill(saved_.begin(), saved_.end(), 0);
  StartDigest();
  const State state = {kMagic, kPartBytes, size_};
  if (ftruncate(fd_, 0) != 0 || !WriteAll(fd_, &state, sizeof(state), size_) ||
      !WriteAll(fd_, saved_.data(), saved_.size() * sizeof(int64_t), size_ + sizeof(state))) {
    return ExplainWriteError(path_, errno);
  }
  return absl::OkStatus();
}

absl::Status IncompleteFile::WriteState(int part) {
  const int64_t done = done_[part];
  if (!WriteAll(fd_, &done, sizeof(done), size_ + sizeof(State) + part * sizeof(int64_t))) {
    return ExplainWriteError(path_, errno);
  }
  saved_[part] = done;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> IncompleteFile::Write(int64_t position, absl::string_view bytes) {
  CHECK_LE(position + static_cast<int64_t>(bytes.size()), size_);
  if (!WriteAll(fd_, bytes.data(), bytes.size(), position)) return ExplainWriteError(path_, errno);
  const int64_t end = position + static_cast<int64_t>(bytes.size());
  int64_t num_new = 0;
  for (int part = static_cast<int>(position / kPartBytes);
       part < num_parts() && PartBegin(part) < end; ++part) {
    const int64_t before = done_[part];
    const int64_t now = std::max(before, std::min(end, PartEnd(part)) - PartBegin(part));
    CHECK_LE(std::max(position, PartBegin(part)), PartBegin(part) + before) << "a gap";
    done_[part] = now;
    num_new += now - before;
    const bool whole = PartBegin(part) + now == PartEnd(part);
    if (now - saved_[part] >= kSaveEvery || (whole && saved_[part] != now)) {
      RETURN_IF_ERROR(WriteState(part));
    }
  }
  return num_new;
}

void IncompleteFile::StartDigest() {
  num_checked_ = 0;
  if (IsSha256(etag_)) {
    CHECK_EQ(EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr), 1);
  } else if (IsCommit(etag_)) {                                        // git's id of a blob
    if (EVP_DigestInit_ex(digest_.get(), EVP_sha1(), nullptr) != 1) {  // not allowed by this system
      digest_.reset();
      return;
    }
    const std::string header = absl::StrCat("blob ", size_);
    CHECK_EQ(EVP_DigestUpdate(digest_.get(), header.c_str(), header.size() + 1), 1);
  } else {
    digest_.reset();  // an etag that is no digest
  }
}

absl::Status IncompleteFile::CheckAhead() {
  if (!mutex_.TryLock()) return absl::OkStatus();
  absl::Status status = CheckAheadLocked();
  mutex_.Unlock();
  return status;
}

absl::Status IncompleteFile::CheckAheadLocked() {
  if (digest_ == nullptr) return absl::OkStatus();
  std::string buffer(std::min<int64_t>(kReadBytes, size_), '\0');
  while (num_checked_ < size_) {
    const int part = static_cast<int>(num_checked_ / kPartBytes);
    const int64_t known = std::min<int64_t>(Missing(part).begin - num_checked_, buffer.size());
    if (known <= 0) break;
    if (!ReadAll(fd_, buffer.data(), known, num_checked_)) return ExplainWriteError(path_, errno);
    CHECK_EQ(EVP_DigestUpdate(digest_.get(), buffer.data(), known), 1);
    num_checked_ += known;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> IncompleteFile::IsGood() {
  absl::MutexLock lock(&mutex_);
  if (digest_ == nullptr) return true;
  RETURN_IF_ERROR(CheckAheadLocked());
  CHECK_EQ(num_checked_, size_);
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  CHECK_EQ(
      EVP_DigestFinal_ex(digest_.get(), reinterpret_cast<unsigned char*>(digest.data()), &size), 1);
  digest.resize(size);
  return absl::BytesToHexString(digest) == etag_;
}

absl::Status IncompleteFile::MoveTo(const std::string& path) {
  // To the disk first: after a power failure the name must not stand for less.
  if (ftruncate(fd_, size_) != 0 || fdatasync(fd_) != 0 ||
      rename(path_.c_str(), path.c_str()) != 0) {
    return ExplainWriteError(path, errno);
  }
  return absl::OkStatus();
}

}  // namespace quire
