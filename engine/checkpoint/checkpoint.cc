#include "engine/checkpoint/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/checkpoint/model_folder.h"
#include "engine/json/json_reader.h"
#include "engine/json/model_file.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

constexpr int64_t kMaxIndexBytes = 32 << 20;
constexpr size_t kMaxFiles = 10000;
constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

// The index is untrusted: a name must not lead out of the folder.
bool IsPlainFileName(absl::string_view name) {
  return absl::EndsWith(name, ".safetensors") && name[0] != '.' &&
         name.find_first_of(absl::string_view("/\\\0", 3)) == name.npos;
}

// File name -> the tensors that the index says it has.
absl::StatusOr<std::map<std::string, std::vector<std::string>>> ParseIndex(absl::string_view text) {
  ASSIGN_OR_RETURN(const nlohmann::json root,
                   ParseJsonObject(text, kIndexFile, DuplicateKeys::kRefused));
  const auto map = root.find("weight_map");
  if (map == root.end() || !map->is_object() || map->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kIndexFile, ": weight_map must map tensor names to file names"));
  }
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !IsPlainFileName(file.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(
          absl::StrCat(kIndexFile, ": weight_map puts ", Shown(tensor), " into ", Shown(file),
                       ", which is not the name of a .safetensors file in the same folder"));
    }
    files[file.get<std::string>()].push_back(tensor);
  }
  if (files.size() > kMaxFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat(kIndexFile, ": weight_map names more than ", kMaxFiles, " files"));
  }
  return files;
}

absl::StatusOr<SafetensorsFile> OpenFirstFile(const std::string& folder) {
  absl::StatusOr<SafetensorsFile> single = SafetensorsFile::Open(folder, kSingleFile);
  if (!absl::IsNotFound(single.status())) return single;
  ASSIGN_OR_RETURN(const std::string index, ReadModelFile(folder, kIndexFile, kMaxIndexBytes));
  ASSIGN_OR_RETURN(const auto files, ParseIndex(index));
  return SafetensorsFile::Open(folder, files.begin()->first);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ShardNames(absl::string_view index_text) {
  ASSIGN_OR_RETURN(const auto index, ParseIndex(index_text));
  std::vector<std::string> names;
  names.reserve(index.size());
  for (const auto& [name, tensors] : index) names.push_back(name);
  return names;
}

std::optional<DType> DTypeOfWeights(const std::string& folder) {
  const absl::StatusOr<SafetensorsFile> file = OpenFirstFile(folder);
  if (!file.ok()) return std::nullopt;
  const SafetensorsTensor* first = nullptr;
  for (const SafetensorsTensor& tensor : file->tensors()) {
    if (!tensor.dtype) continue;
    if (first == nullptr || tensor.name < first->name) first = &tensor;
  }
  return first != nullptr ? first->dtype : std::nullopt;
}

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder) {
  Checkpoint checkpoint;
  absl::StatusOr<SafetensorsFile> single = SafetensorsFile::Open(folder, kSingleFile);
  if (single.ok()) {
    checkpoint.files_.push_back(std::move(*single));
    const SafetensorsFile& file = checkpoint.files_.front();
    for (const SafetensorsTensor& tensor : file.tensors()) {
      checkpoint.entries_.emplace(tensor.name, Entry{&file, &tensor});
    }
    return checkpoint;
  }
  if (!absl::IsNotFound(single.status())) return single.status();

  absl::StatusOr<std::string> index = ReadModelFile(folder, kIndexFile, kMaxIndexBytes);
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(
        absl::StrCat(folder, " ", ExplainMissingWeights(FileNames(folder), folder)));
  }
  RETURN_IF_ERROR(index.status());
  RETURN_IF_ERROR(checkpoint.OpenSharded(folder, *index));
  return checkpoint;
}

const Checkpoint::Entry* Checkpoint::Find(absl::string_view tensor) const {
  const auto it = entries_.find(tensor);
  return it == entries_.end() ? nullptr : &it->second;
}

absl::Status Checkpoint::OpenSharded(const std::string& folder, absl::string_view index_text) {
  ASSIGN_OR_RETURN(const auto index, ParseIndex(index_text));
  files_.reserve(index.size());  // entries point into it
  for (const auto& [name, tensors] : index) {
    absl::StatusOr<SafetensorsFile> opened = SafetensorsFile::Open(folder, name);
    if (absl::IsNotFound(opened.status())) {
      return absl::NotFoundError(absl::StrCat(folder, "/", name, ", which ", kIndexFile,
                                              " names, is missing; copy or download it again"));
    }
    RETURN_IF_ERROR(opened.status());
    files_.push_back(std::move(*opened));
    for (const std::string& tensor : tensors) {
      const SafetensorsTensor* found = files_.back().Find(tensor);
      if (found == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(name, " has no tensor ", Shown(tensor),
                                                       ", which ", kIndexFile, " puts there"));
      }
      entries_.emplace(tensor, Entry{&files_.back(), found});
    }
  }
  // Tensors that the index leaves out are entries, too, for callers that ask what the checkpoint
  // has.
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsTensor& tensor : file.tensors()) {
      entries_.emplace(tensor.name, Entry{&file, &tensor});
    }
  }
  return absl::OkStatus();
}

}  // namespace quire
