// The hub's list of the files in a repository, and the choice of those that a model needs. The
// hub's answer is untrusted: names of files are compared with names that we know, never followed.
// Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

struct RepoFile {
  std::string name;
  int64_t size = -1;      // bytes; -1: the answer does not say
  std::string etag = "";  // SHA-256 of a large file, git's blob id of another; empty: not said
};

struct RepoInfo {
  std::string commit;
  std::vector<RepoFile> files;

  const RepoFile* Find(absl::string_view name) const;
};

// The things that a start will read.
struct ModelNeeds {
  bool weights = true;
  bool tokenizer = true;
};

constexpr char kSingleWeightsFile[] = "model.safetensors";
constexpr char kWeightsIndexFile[] = "model.safetensors.index.json";

// The hub's answer to /api/models/org/name/revision/main?blobs=true. INVALID_ARGUMENT says what is
// wrong with it.
absl::StatusOr<RepoInfo> ParseRepoInfo(absl::string_view json);

// The files of `info` to download before the weights: configuration, tokenizer, and the index of
// shards if there is no model.safetensors. NOT_FOUND or DATA_LOSS, beginning with `name`, when they
// make no model that can be served.
absl::StatusOr<std::vector<RepoFile>> SelectSmallFiles(absl::string_view name, const RepoInfo& info,
                                                       const ModelNeeds& needs);

// model.safetensors, else the files that `index`, the text of the index, names. NOT_FOUND or
// DATA_LOSS, beginning with `name`, when they are not there or the index cannot be read.
absl::StatusOr<std::vector<RepoFile>> SelectWeights(absl::string_view name, const RepoInfo& info,
                                                    absl::string_view index);

}  // namespace quire
