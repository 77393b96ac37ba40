#include "server/auth/key_file.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/json/small_file.h"
#include "kernels/base/status_macros.h"

namespace quire {

absl::StatusOr<std::unique_ptr<KeyFile>> KeyFile::Open(const std::string& path) {
  std::unique_ptr<KeyFile> file(new KeyFile(path));
  absl::MutexLock reload_lock(&file->reload_mutex_);
  file->stamp_ = FileStamp::Of(path);
  ASSIGN_OR_RETURN(KeyTable table, file->Read(&file->digest_));
  absl::MutexLock lock(&file->mutex_);
  file->table_ = std::make_shared<const KeyTable>(std::move(table));
  return file;
}

std::shared_ptr<const KeyTable> KeyFile::Table() {
  absl::MutexLock lock(&mutex_);
  return table_;
}

void KeyFile::Look() {
  absl::MutexLock reload_lock(&reload_mutex_);
  if (stamp_.MayDiffer(FileStamp::Of(path_))) ReadAgain();
}

void KeyFile::Reload() {
  absl::MutexLock reload_lock(&reload_mutex_);
  digest_ = {};  // so that the log says what came of it, also where nothing is new
  complaint_.clear();
  ReadAgain();
}

absl::StatusOr<KeyTable> KeyFile::Read(Sha256* digest) const {
  absl::StatusOr<std::string> text = ReadSmallFile(path_, kMaxKeyFileBytes);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  *digest = Sha256Of(*text);
  return KeyTable::Parse(*text, path_);
}

void KeyFile::ReadAgain() {
  stamp_ = FileStamp::Of(path_);
  Sha256 digest = {};
  absl::StatusOr<KeyTable> table = Read(&digest);
  // The same bytes again, or the same trouble, have been in the log.
  const std::string complaint(table.status().message());
  if (digest == digest_ && complaint == complaint_) return;
  digest_ = digest;
  complaint_ = complaint;
  if (!table.ok()) {
    spdlog::error("the keys stay as they were: {}", complaint);
    return;
  }
  spdlog::info("read {} keys from {}", table->num_keys(), path_);
  absl::MutexLock lock(&mutex_);
  table_ = std::make_shared<const KeyTable>(*std::move(table));
}

}  // namespace quire
