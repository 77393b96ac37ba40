#include "engine/checkpoint/generation_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/json/json_reader.h"
#include "engine/json/model_file.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr int64_t kMaxTopK = 1 << 30;  // what a request may ask for

std::optional<float> ToFloat(std::optional<double> value) {
  if (!value) return std::nullopt;
  return static_cast<float>(*value);
}

// With the value that means "off", if that is no null, no false and nothing empty.
struct UnusedKey {
  const char* name;
  double off;
};
constexpr UnusedKey kUnusedKeys[] = {{"num_beams", 1},
                                     {"penalty_alpha", 0},
                                     {"typical_p", 1},
                                     {"top_h", 1},
                                     {"epsilon_cutoff", 0},
                                     {"eta_cutoff", 0},
                                     {"encoder_repetition_penalty", 1},
                                     {"no_repeat_ngram_size", 0},
                                     {"min_length", 0},
                                     {"min_new_tokens", 0},
                                     {"bad_words_ids", 0},
                                     {"force_words_ids", 0},
                                     {"forced_bos_token_id", -1},
                                     {"forced_eos_token_id", -1},
                                     {"suppress_tokens", 0},
                                     {"begin_suppress_tokens", 0},
                                     {"sequence_bias", 0},
                                     {"exponential_decay_length_penalty", 0},
                                     {"guidance_scale", 1},
                                     {"watermarking_config", 0},
                                     {"stop_strings", 0},
                                     {"max_time", 0}};

std::vector<std::string> UnusedKeys(const JsonReader& reader) {
  std::vector<std::string> keys;
  for (const UnusedKey& key : kUnusedKeys) {
    const nlohmann::json* value = reader.Find(key.name);
    if (value == nullptr || *value == false || *value == key.off || value->empty()) continue;
    keys.emplace_back(key.name);
  }
  return keys;
}

}  // namespace

absl::StatusOr<GenerationConfig> ParseGenerationConfig(absl::string_view json) {
  constexpr char kName[] = "generation_config.json";
  ASSIGN_OR_RETURN(const nlohmann::json root, ParseModelJson(json, kName));
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
  if (reader.Bool("do_sample") == false) {
    config.temperature = 0;
    config.top_p.reset();
    config.top_k.reset();
    config.min_p.reset();
  }
  config.unused_keys = UnusedKeys(reader);
  if (!status.ok()) return status;
  return config;
}

absl::StatusOr<GenerationConfig> LoadGenerationConfig(const std::string& folder) {
  absl::StatusOr<std::string> text = ReadModelFile(folder, "generation_config.json", kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return GenerationConfig{};
  RETURN_IF_ERROR(text.status());
  return ParseGenerationConfig(*text);
}

}  // namespace quire
