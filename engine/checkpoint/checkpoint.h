// Checkpoint: all weight files of a model folder as one set of named tensors. A single
// model.safetensors, or the files that model.safetensors.index.json names. Read-only; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/checkpoint/safetensors.h"

namespace quire {

// The files that the text of a model.safetensors.index.json names, sorted. INVALID_ARGUMENT when it
// cannot be read, or names something that is not a plain file name.
absl::StatusOr<std::vector<std::string>> ShardNames(absl::string_view index_text);

// The dtype in which transformers computes a model whose config.json names none: the dtype of the
// first floating tensor, by name, of the first file. Nothing if the weights are missing or damaged;
// the code that reads them reports that.
std::optional<DType> DTypeOfWeights(const std::string& folder);

class Checkpoint {
 public:
  // NOT_FOUND when the folder has no weights, INVALID_ARGUMENT when a file is damaged, the index
  // names something that is not a plain file name, or a file lacks a tensor that the index puts
  // there.
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);

  struct Entry {
    const SafetensorsFile* file;
    const SafetensorsTensor* tensor;
  };
  // nullptr when there is no such tensor. If two files have the name, the index chooses.
  const Entry* Find(absl::string_view tensor) const;
  const absl::flat_hash_map<std::string, Entry>& entries() const { return entries_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  absl::Status OpenSharded(const std::string& folder, absl::string_view index_text);

  std::vector<SafetensorsFile> files_;
  absl::flat_hash_map<std::string, Entry> entries_;
};

}  // namespace quire
