// ModelFamily: what a config.json leaves unsaid. One row per supported architecture: the class
// defaults that transformers leaves out of sparse configs, and what its code fixes without a key.
// Constant data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "kernels/base/types.h"

namespace quire {

// Which layers slide when the config has no layer_types.
enum class WindowRule : uint8_t {
  kNone,         // no layer
  kEveryLayer,   // all layers, if sliding_window is set
  kUpperLayers,  // layers from max_window_layers on, if use_sliding_window is true
};

struct ModelFamily {
  absl::string_view architecture;
  absl::string_view model_type;

  // Defaults of keys.
  int64_t vocab_size;
  int64_t intermediate_size;
  std::optional<int64_t> num_kv_heads;  // unset: as many as query heads
  std::optional<int64_t> head_dim;      // unset: hidden_size / num_attention_heads
  int64_t max_position_embeddings;
  std::optional<int64_t> sliding_window;
  std::optional<TokenId> bos_token_id;
  std::optional<TokenId> eos_token_id;

  // Fixed by the family.
  WindowRule window_rule;
  bool always_qkv_bias;     // q, k, v have biases and o has none, whatever attention_bias says
  bool has_attention_bias;  // reads attention_bias (q, k, v, o)
  bool has_mlp_bias;        // reads mlp_bias
  bool qk_norm;
};

// Defaults that all families share.
inline constexpr int64_t kDefaultHiddenSize = 4096;
inline constexpr int64_t kDefaultNumLayers = 32;
inline constexpr int64_t kDefaultNumQHeads = 32;
inline constexpr int64_t kDefaultMaxWindowLayers = 28;
inline constexpr double kDefaultRmsNormEps = 1e-6;

// By the name in config.json's architectures, or by its model_type; nullptr when unsupported.
const ModelFamily* FindFamilyByArchitecture(absl::string_view architecture);
const ModelFamily* FindFamilyByModelType(absl::string_view model_type);

// "LlamaForCausalLM, MistralForCausalLM, ...", for errors.
std::string SupportedArchitectures();

}  // namespace quire
