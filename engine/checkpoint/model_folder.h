// Finds the folder that holds config.json from the path that a user names. If the path is no such
// folder, describes in a sentence what it is. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

// `path` itself when it has a config.json. A folder of the Hugging Face cache
// (models--org--name/{refs,snapshots}) becomes its snapshot: the one that refs/main names, else the
// only one. Otherwise NOT_FOUND or, for a format that is not served, UNIMPLEMENTED. The error says
// what the path is, and what to pass instead.
absl::StatusOr<std::string> ResolveModelFolder(const std::string& path);

// The names of the files and folders in `folder`, sorted; empty if it cannot be read.
std::vector<std::string> FileNames(const std::string& folder);

// Describes files without config.json, and says what to do: "holds GGUF files, ...". `names` are
// the names in a folder or a repository.
std::string ExplainMissingConfig(const std::vector<std::string>& names);

// Says what a model of sentence-transformers is, and that it is not served; nothing for other
// files.
std::optional<std::string> ExplainEmbeddingModel(const std::vector<std::string>& names);

// The same for files without tokenizer.json: how to make a tokenizer.json from them, or what to
// pass instead. `place` is as below.
std::string ExplainMissingTokenizer(const std::vector<std::string>& names, absl::string_view place);

// The same for files with config.json but neither model.safetensors nor an index of shards.
// `place`, the folder or repository, appears in the command that converts it.
std::string ExplainMissingWeights(const std::vector<std::string>& names, absl::string_view place);

}  // namespace quire
