#include "server/surfaces/vllm/tokenizer_archive.h"

#include <spdlog/spdlog.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/json/model_file.h"
#include "kernels/base/status_macros.h"
#include "server/base/sha256.h"

namespace quire {

namespace {

// The limits of the SMG router, which unpacks at most 50 files of 500 MB in all, from 200 MB of
// zip.
constexpr size_t kMaxFiles = 50;
constexpr int64_t kMaxFileBytes = int64_t{128} << 20;

constexpr std::array<absl::string_view, 11> kNames = {"added_tokens.json",
                                                      "chat_template.json",
                                                      "config.json",
                                                      "generation_config.json",
                                                      "merges.txt",
                                                      "preprocessor_config.json",
                                                      "processor_config.json",
                                                      "special_tokens_map.json",
                                                      "tokenizer.json",
                                                      "tokenizer_config.json",
                                                      "vocab.json"};

bool BelongsToTokenizer(absl::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         absl::EndsWith(name, ".jinja") || absl::EndsWith(name, ".tiktoken") ||
         absl::EndsWith(name, ".model");
}

// Sorted, so that equal folders make equal zips.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (BelongsToTokenizer(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.resize(std::min(names.size(), kMaxFiles));
  return names;
}

absl::Status Failed(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("the tokenizer's files: ", what));
}

struct Archive {
  ~Archive() {
    if (zip != nullptr) zip_discard(zip);
    if (source != nullptr) zip_source_free(source);
  }
  zip_source_t* source = nullptr;
  zip_t* zip = nullptr;
};

// `bytes` live until the archive is closed. No time of day: equal files, equal zip.
absl::Status AddFile(Archive& archive, const std::string& name, const std::string& bytes) {
  zip_source_t* file = zip_source_buffer(archive.zip, bytes.data(), bytes.size(), 0);
  if (file == nullptr) return Failed(zip_strerror(archive.zip));
  const zip_int64_t index = zip_file_add(archive.zip, name.c_str(), file, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(file);
    return Failed(zip_strerror(archive.zip));
  }
  constexpr time_t kFirstTime = 315532800;  // 1980-01-01, the earliest of the format
  zip_file_set_mtime(archive.zip, static_cast<zip_uint64_t>(index), kFirstTime, 0);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadBack(zip_source_t* source) {
  zip_stat_t stat;
  if (zip_source_stat(source, &stat) != 0 || zip_source_open(source) != 0) {
    return Failed(zip_error_strerror(zip_source_error(source)));
  }
  std::string bytes(stat.size, '\0');
  const zip_int64_t size = zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
  if (size != static_cast<zip_int64_t>(bytes.size())) return Failed("the zip is cut off");
  return bytes;
}

// `told` is set once the log has a reason.
absl::StatusOr<std::string> Zip(const std::string& folder, bool* told) {
  Archive archive;
  zip_error_t error;
  zip_error_init(&error);
  archive.source = zip_source_buffer_create(nullptr, 0, 0, &error);
  if (archive.source == nullptr) return Failed(zip_error_strerror(&error));
  archive.zip = zip_open_from_source(archive.source, ZIP_TRUNCATE, &error);
  if (archive.zip == nullptr) return Failed(zip_error_strerror(&error));
  zip_source_keep(archive.source);
  const std::vector<std::string> names = NamesIn(folder);
  if (names.empty()) return Failed("there are none");
  std::vector<std::string> contents;
  contents.reserve(names.size());
  for (const std::string& name : names) {
    absl::StatusOr<std::string> bytes = ReadModelFile(folder, name, kMaxFileBytes);
    if (!bytes.ok()) {  // where a link leads is only for the log
      if (!std::exchange(*told, true)) {
        spdlog::warn("the tokenizer's files are not handed out: {}",
                     std::string(bytes.status().message()));
      }
      return Failed(absl::StrCat(name, " cannot be handed out; the server's log says why"));
    }
    contents.push_back(*std::move(bytes));
    RETURN_IF_ERROR(AddFile(archive, name, contents.back()));
  }
  if (zip_close(archive.zip) != 0) return Failed(zip_strerror(archive.zip));
  archive.zip = nullptr;
  return ReadBack(archive.source);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ZipFile>> TokenizerArchive::Get() {
  absl::MutexLock making(&making_);
  if (auto zip = made(); zip != nullptr) return zip;
  absl::StatusOr<std::string> bytes = Zip(folder_, &told_);
  if (!bytes.ok()) return absl::FailedPreconditionError(bytes.status().message());
  const Sha256 digest = Sha256Of(*bytes);
  const std::string sha256 =
      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
  absl::MutexLock lock(&mutex_);
  zip_ = std::make_shared<const ZipFile>(ZipFile{*std::move(bytes), sha256});
  return zip_;
}

std::shared_ptr<const ZipFile> TokenizerArchive::made() const {
  absl::MutexLock lock(&mutex_);
  return zip_;
}

}  // namespace quire
