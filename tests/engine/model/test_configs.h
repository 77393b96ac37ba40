// config.json as tests have it, parsed.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "engine/model/config/model_config.h"

namespace quire {

inline ModelConfig Parse(const nlohmann::json& config) {
  const auto parsed = ParseModelConfig(config.dump());
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(ModelConfig{});
}

inline absl::Status Error(const nlohmann::json& config) {
  return ParseModelConfig(config.dump()).status();
}

// A whole config.json of Llama 3.1, with `changes` merged over it (null removes a key).
inline nlohmann::json Llama(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = nlohmann::json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false,
    "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 131072,
    "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256})");
  config.merge_patch(changes);
  return config;
}

inline nlohmann::json Sparse(const char* model_type) { return {{"model_type", model_type}}; }

}  // namespace quire
