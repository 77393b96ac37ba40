#include "server/start/hub/repo_info.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/model_folder.h"
#include "engine/json/json_reader.h"
#include "engine/json/model_file.h"
#include "kernels/base/status_macros.h"
#include "server/start/hub/hub_name.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxFiles = 100000;
constexpr char kTemplateFolder[] = "additional_chat_templates/";

struct KnownFile {
  absl::string_view name;
  bool for_tokenizer;
  int64_t max_bytes;  // far above what a model has; more would only fail later, or fill the disk
};

constexpr std::array<KnownFile, 17> kKnownFiles = {{
    {"config.json", false, kMaxConfigBytes},
    {"hf_quant_config.json", false, kMaxConfigBytes},
    {"quantize_config.json", false, kMaxConfigBytes},
    {"quant_config.json", false, kMaxConfigBytes},
    {"generation_config.json", false, 1 << 20},
    {kWeightsIndexFile, false, 32 << 20},
    {"tokenizer.json", true, 512 << 20},
    {"tokenizer_config.json", true, 64 << 20},
    {"special_tokens_map.json", true, 16 << 20},
    {"added_tokens.json", true, 64 << 20},
    {"chat_template.jinja", true, 16 << 20},
    {"chat_template.json", true, 16 << 20},
    {"vocab.json", true, 256 << 20},
    {"vocab.txt", true, 256 << 20},
    {"merges.txt", true, 256 << 20},
    {"tokenizer.model", true, 256 << 20},
    {"spiece.model", true, 256 << 20},
}};
constexpr KnownFile kTemplate = {"", true, 16 << 20};

// additional_chat_templates/<plain name>.jinja
bool IsTemplateFile(absl::string_view name) {
  if (!absl::StartsWith(name, kTemplateFolder) || !absl::EndsWith(name, ".jinja")) return false;
  name.remove_prefix(sizeof(kTemplateFolder) - 1);
  return name.size() <= 100 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

const KnownFile* FindKnown(absl::string_view name) {
  for (const KnownFile& known : kKnownFiles) {
    if (known.name == name) return &known;
  }
  return IsTemplateFile(name) ? &kTemplate : nullptr;
}

std::optional<RepoFile> ParseFile(const json& sibling) {
  if (!sibling.is_object()) return std::nullopt;
  absl::Status status;
  JsonReader reader(sibling, "siblings", &status);
  const std::optional<std::string> name = reader.String("rfilename");
  if (!name || name->empty()) return std::nullopt;
  RepoFile file = {*name};
  file.size = reader.Int("size", 0, kMaxInt).value_or(-1);
  if (const std::string id = reader.String("blobId").value_or(""); IsCommit(id)) file.etag = id;
  if (std::optional<JsonReader> lfs = reader.Object("lfs")) {
    file.size = lfs->Int("size", 0, kMaxInt).value_or(file.size);
    const std::string sha256 = lfs->String("sha256").value_or("");
    // A large file's blob id is that of its pointer: no help to check the file.
    file.etag = IsSha256(sha256) ? sha256 : "";
  }
  if (!status.ok()) return std::nullopt;
  return file;
}

std::vector<std::string> Names(const RepoInfo& info) {
  std::vector<std::string> names;
  names.reserve(info.files.size());
  for (const RepoFile& file : info.files) names.push_back(file.name);
  return names;
}

absl::Status CheckParts(absl::string_view name, const RepoInfo& info, const ModelNeeds& needs) {
  if (info.Find("config.json") == nullptr) {
    return absl::NotFoundError(absl::StrCat(name, " ", ExplainMissingConfig(Names(info))));
  }
  if (const auto embedding = ExplainEmbeddingModel(Names(info))) {
    return absl::UnimplementedError(absl::StrCat(name, " ", *embedding));
  }
  if (needs.weights && info.Find(kSingleWeightsFile) == nullptr &&
      info.Find(kWeightsIndexFile) == nullptr) {
    return absl::NotFoundError(absl::StrCat(name, " ", ExplainMissingWeights(Names(info), name)));
  }
  if (needs.tokenizer && info.Find("tokenizer.json") == nullptr) {
    return absl::NotFoundError(absl::StrCat(name, " ", ExplainMissingTokenizer(Names(info), name)));
  }
  return absl::OkStatus();
}

}  // namespace

const RepoFile* RepoInfo::Find(absl::string_view name) const {
  for (const RepoFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

absl::StatusOr<RepoInfo> ParseRepoInfo(absl::string_view json_text) {
  ASSIGN_OR_RETURN(const json root,
                   ParseJsonObject(json_text, "the hub's answer", DuplicateKeys::kLastWins));
  RepoInfo info;
  const auto sha = root.find("sha");
  if (sha != root.end() && sha->is_string()) info.commit = sha->get<std::string>();
  if (!IsCommit(info.commit)) {
    return absl::InvalidArgumentError("the hub's answer: sha is not a commit");
  }
  const auto siblings = root.find("siblings");
  if (siblings == root.end() || !siblings->is_array()) {
    return absl::InvalidArgumentError("the hub's answer: siblings is not a list of files");
  }
  for (const json& sibling : *siblings) {
    if (info.files.size() == kMaxFiles) break;
    if (std::optional<RepoFile> file = ParseFile(sibling)) info.files.push_back(*std::move(file));
  }
  return info;
}

absl::StatusOr<std::vector<RepoFile>> SelectSmallFiles(absl::string_view name, const RepoInfo& info,
                                                       const ModelNeeds& needs) {
  RETURN_IF_ERROR(CheckParts(name, info, needs));
  const bool wants_index = needs.weights && info.Find(kSingleWeightsFile) == nullptr;
  std::vector<RepoFile> selected;
  for (const RepoFile& file : info.files) {
    const KnownFile* known = FindKnown(file.name);
    if (known == nullptr || (known->for_tokenizer && !needs.tokenizer)) continue;
    if (file.name == kWeightsIndexFile && !wants_index) continue;
    if (file.size > known->max_bytes) {
      return absl::DataLossError(
          absl::StrCat(name, ": ", file.name, " has ", WithCommas(file.size), " bytes; at most ",
                       WithCommas(known->max_bytes),
                       " are read: it is damaged, or not that of a model; nothing was downloaded"));
    }
    const auto same = [&](const RepoFile& other) { return other.name == file.name; };
    if (std::none_of(selected.begin(), selected.end(), same)) selected.push_back(file);
  }
  return selected;
}

absl::StatusOr<std::vector<RepoFile>> SelectWeights(absl::string_view name, const RepoInfo& info,
                                                    absl::string_view index) {
  if (const RepoFile* single = info.Find(kSingleWeightsFile)) return std::vector{*single};
  const absl::StatusOr<std::vector<std::string>> shards = ShardNames(index);
  if (!shards.ok()) {
    return absl::DataLossError(absl::StrCat(name, ": ", shards.status().message()));
  }
  std::vector<RepoFile> selected;
  for (const std::string& shard : *shards) {
    const RepoFile* file = info.Find(shard);
    if (file == nullptr) {
      return absl::NotFoundError(absl::StrCat(name, " lacks ", Shown(shard), ", which its ",
                                              kWeightsIndexFile,
                                              " names: its upload may not be complete; try another "
                                              "--revision"));
    }
    selected.push_back(*file);
  }
  return selected;
}

}  // namespace quire
