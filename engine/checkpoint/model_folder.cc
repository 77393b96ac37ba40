#include "engine/checkpoint/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/json/model_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxRefBytes = 256;
constexpr size_t kMaxNames = 100000;
constexpr size_t kMaxSuggestions = 3;
constexpr char kWhatToPass[] =
    "pass the folder of a Hugging Face model (config.json, tokenizer.json, *.safetensors)";

bool HasConfig(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.json", error);
}

bool Has(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool HasMatch(const std::vector<std::string>& names, absl::string_view prefix,
              absl::string_view suffix) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return absl::StartsWith(name, prefix) && absl::EndsWithIgnoreCase(name, suffix);
  });
}

// Formats of weights that cannot be served, with or without a config.json beside them.
std::optional<std::string> ExplainFormat(const std::vector<std::string>& names) {
  if (Has(names, "adapter_config.json") || HasMatch(names, "adapter_model.", "")) {
    return "is an adapter (LoRA), not a whole model: merge it into its base model (peft: "
           "merge_and_unload, then save_pretrained) and pass the result";
  }
  if (HasMatch(names, "", ".gguf")) {
    return "holds GGUF files, which are unsupported: pass the model that they were made from "
           "(config.json, tokenizer.json, *.safetensors)";
  }
  if (Has(names, "params.json") || HasMatch(names, "consolidated.", "")) {
    return "holds a model in its maker's own format (params.json, consolidated.*): pass the same "
           "model in the Hugging Face format (config.json, tokenizer.json, model*.safetensors)";
  }
  return std::nullopt;
}

// The snapshots in a folder of the cache that have a configuration. Links that leave the folder do
// not count.
std::vector<fs::path> SnapshotsWithConfig(const fs::path& folder) {
  std::vector<fs::path> found;
  const fs::path snapshots = folder / "snapshots";
  for (const std::string& name : FileNames(snapshots.string())) {
    if (!RealModelPath(folder.string(), absl::StrCat("snapshots/", name)).ok()) continue;
    if (HasConfig(snapshots / name)) found.push_back(snapshots / name);
  }
  return found;
}

absl::Status ExplainFile(const fs::path& path) {
  if (absl::EndsWithIgnoreCase(path.string(), ".gguf")) {
    return absl::UnimplementedError(absl::StrCat(
        path.string(),
        " is a GGUF file, which is unsupported: pass the folder or the hub name of the model that "
        "it was made from (config.json, tokenizer.json, *.safetensors)"));
  }
  const fs::path folder = path.parent_path().empty() ? fs::path(".") : path.parent_path();
  if (HasConfig(folder)) {
    return absl::NotFoundError(
        absl::StrCat(path.string(), " is a file of a model: pass its folder, ", folder.string()));
  }
  return absl::NotFoundError(
      absl::StrCat(path.string(), " is a file, not a folder: ", kWhatToPass));
}

// "models--org--name" -> "org/name".
std::string NameOfCacheFolder(absl::string_view folder) {
  absl::ConsumePrefix(&folder, "models--");
  const size_t dashes = folder.find("--");
  if (dashes == folder.npos) return std::string(folder);
  return absl::StrCat(folder.substr(0, dashes), "/", folder.substr(dashes + 2));
}

absl::Status ExplainFolder(const fs::path& folder) {
  const std::string path = folder.string();
  std::error_code error;
  const fs::directory_iterator readable(folder, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  const std::vector<std::string> names = FileNames(path);
  for (const std::string& name : names) {
    if (absl::StartsWith(name, "models--")) {
      return absl::NotFoundError(
          absl::StrCat(path, " is a cache of models: pass one by name, such as --model ",
                       NameOfCacheFolder(name), " --download-dir ", path));
    }
    if (name == "hub" && fs::is_directory(folder / name, error)) {
      return absl::NotFoundError(absl::StrCat(path, " is a Hugging Face home: set HF_HOME=", path,
                                              " and pass a model by name"));
    }
  }
  std::vector<std::string> inside;
  for (const std::string& name : names) {
    if (HasConfig(folder / name) && inside.size() < kMaxSuggestions) {
      inside.push_back((folder / name).string());
    }
  }
  if (!inside.empty()) {
    return absl::NotFoundError(absl::StrCat(path, " has no config.json; did you mean ",
                                            absl::StrJoin(inside, " or "), "?"));
  }
  const std::string sentence = absl::StrCat(path, " ", ExplainMissingConfig(names));
  return ExplainFormat(names) ? absl::UnimplementedError(sentence) : absl::NotFoundError(sentence);
}

}  // namespace

std::vector<std::string> FileNames(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end;
       !error && entry != end && names.size() < kMaxNames; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ExplainMissingConfig(const std::vector<std::string>& names) {
  if (names.empty()) return absl::StrCat("is empty: ", kWhatToPass);
  if (const std::optional<std::string> format = ExplainFormat(names)) return *format;
  if (Has(names, "model_index.json")) {
    return "is a pipeline of diffusers, which makes images: pass a text model";
  }
  if (HasMatch(names, "", ".safetensors") || HasMatch(names, "pytorch_model", ".bin")) {
    return "has weights, but no config.json: put the model's config.json and tokenizer.json beside "
           "them";
  }
  return absl::StrCat("has no config.json: ", kWhatToPass);
}

std::optional<std::string> ExplainEmbeddingModel(const std::vector<std::string>& names) {
  const bool embeds = std::any_of(names.begin(), names.end(), [](absl::string_view name) {
    return name == "modules.json" || name == "1_Pooling" || absl::StartsWith(name, "1_Pooling/");
  });
  if (!embeds) return std::nullopt;
  return "is an embedding model (modules.json of sentence-transformers), which turns text into "
         "vectors, and /v1/embeddings is not there yet: pass a model that generates text";
}

std::string ExplainMissingTokenizer(const std::vector<std::string>& names,
                                    absl::string_view place) {
  for (const absl::string_view other :
       {"tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "spiece.model"}) {
    if (!Has(names, other)) continue;
    return absl::StrCat(
        "has ", other,
        ", but no tokenizer.json: make it once with python3 -c \"from transformers "
        "import AutoTokenizer as T; T.from_pretrained('",
        place, "').save_pretrained('converted')\" and put converted/tokenizer.json beside its ",
        "config.json, or pass --skip-tokenizer-init to serve token ids only");
  }
  return "has no tokenizer.json: copy it from where the model comes from, or pass "
         "--skip-tokenizer-init to serve token ids only";
}

std::string ExplainMissingWeights(const std::vector<std::string>& names, absl::string_view place) {
  const bool has_bin = HasMatch(names, "pytorch_model", ".bin");
  if (const std::optional<std::string> format = ExplainFormat(names); format && !has_bin) {
    return *format;
  }
  if (has_bin) {
    return absl::StrCat(
        "has its weights as pytorch_model*.bin only, which are unsupported: convert them once with "
        "python3 -c \"from transformers import AutoModelForCausalLM as M, AutoTokenizer as T; "
        "[c.from_pretrained('",
        place, "').save_pretrained('converted') for c in (M, T)]\" and pass --model converted");
  }
  if (HasMatch(names, "", ".safetensors")) {
    return "has neither model.safetensors nor model.safetensors.index.json, which says what its "
           "other *.safetensors files hold: download the whole model again";
  }
  return "has neither model.safetensors nor model.safetensors.index.json: download the weights "
         "too, "
         "or pass --load-format dummy to run without";
}

absl::StatusOr<std::string> ResolveModelFolder(const std::string& path) {
  std::error_code error;
  const fs::path folder(path);
  if (!fs::exists(folder, error)) {
    if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
    return absl::NotFoundError(absl::StrCat(path, " does not exist: ", kWhatToPass));
  }
  if (!fs::is_directory(folder, error)) return ExplainFile(folder);
  if (HasConfig(folder)) return path;

  const std::vector<fs::path> snapshots = SnapshotsWithConfig(folder);
  const absl::StatusOr<std::string> ref = ReadModelFile(path, "refs/main", kMaxRefBytes);
  for (const fs::path& snapshot : snapshots) {
    if (ref.ok() && snapshot.filename() == std::string(absl::StripAsciiWhitespace(*ref))) {
      return snapshot.string();
    }
  }
  if (snapshots.size() == 1) return snapshots[0].string();
  if (snapshots.size() > 1) {
    return absl::NotFoundError(absl::StrCat(path, " has ", snapshots.size(),
                                            " snapshots and refs/main names none of them; pass "
                                            "one of the folders in ",
                                            path, "/snapshots"));
  }
  return ExplainFolder(folder);
}

}  // namespace quire
