#include "engine/checkpoint/generation_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/json/json_reader.h"
#include "engine/json/small_file.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr int64_t kMaxTopK = 1 << 30;  // what a request may ask for

std::optional<float> ToFloat(std::optional<double> value) {
  if (!value) return std::nullopt;
  return static_cast<float>(*value);
}

}  // namespace

absl::StatusOr<GenerationConfig> ParseGenerationConfig(absl::string_view json) {
  constexpr char kName[] = "generation_config.json";
  ASSIGN_OR_RETURN(const nlohmann::json root,
                   ParseJsonObject(json, kName, DuplicateKeys::kLastWins));
  absl::Status status;
  JsonReader reader(root, kName, &status);
  GenerationConfig config;
  config.temperature = ToFloat(reader.Double("temperature", 0, 100));
  config.top_p = ToFloat(reader.Double("top_p", 1e-6, 1));
  // Some files say -1 for off, as servers do, some 0, as transformers does.
  if (auto top_k = reader.Int("top_k", -1, kMaxTopK)) config.top_k = std::max<int32_t>(*top_k, 0);
  config.min_p = ToFloat(reader.Double("min_p", 0, 1));
  config.repetition_penalty = ToFloat(reader.Double("repetition_penalty", 0.01, 100));
  config.max_new_tokens = reader.Int("max_new_tokens", 1, INT32_MAX);
  for (int64_t id : reader.IntOrIntList("eos_token_id", 0, INT32_MAX)) {
    config.eos_token_ids.push_back(static_cast<TokenId>(id));
  }
  if (!status.ok()) return status;
  return config;
}

absl::StatusOr<GenerationConfig> LoadGenerationConfig(const std::string& folder) {
  absl::StatusOr<std::string> text =
      ReadSmallFile(absl::StrCat(folder, "/generation_config.json"), kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return GenerationConfig{};
  RETURN_IF_ERROR(text.status());
  return ParseGenerationConfig(*text);
}

}  // namespace quire
