// generation_config.json: how the model's authors want it to be sampled. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/base/types.h"

namespace quire {

// Defaults of a request that the model's authors recommend; unset if the file says nothing. With
// "do_sample": false the temperature is 0, and parameters that only sampling uses are unset, as in
// transformers.
struct GenerationConfig {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int64_t> max_new_tokens;
  std::vector<TokenId> eos_token_ids;
  // Keys that change answers in transformers, but not in Quire.
  std::vector<std::string> unused_keys;
};

// An absent file is an empty GenerationConfig; a malformed one is INVALID_ARGUMENT.
absl::StatusOr<GenerationConfig> LoadGenerationConfig(const std::string& folder);
// The same from the text of a generation_config.json.
absl::StatusOr<GenerationConfig> ParseGenerationConfig(absl::string_view json);

}  // namespace quire
