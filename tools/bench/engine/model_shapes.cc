#include "tools/bench/engine/model_shapes.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/base/status_macros.h"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

struct NamedConfig {
  const char* name;
  const char* config;
};

constexpr std::array<NamedConfig, 10> kShapes = {NamedConfig{"llama-3-8b", R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16",
  "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
  "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
  "tie_word_embeddings": false, "bos_token_id": 128000, "eos_token_id": 128001
})"},
                                                 NamedConfig{"qwen3-0.6b", R"({
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "dtype": "bfloat16",
  "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
  "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
  "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
  "tie_word_embeddings": true, "bos_token_id": 151643, "eos_token_id": 151645
})"},
                                                 NamedConfig{"qwen3.5-0.8b", R"({
  "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "dtype": "bfloat16",
  "vocab_size": 248320, "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24,
  "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
  "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
  "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
  "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0,
                      "partial_rotary_factor": 0.25},
  "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
  "eos_token_id": 248044
})"},
                                                 NamedConfig{"qwen3.6-27b", R"({
  "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "dtype": "bfloat16",
  "vocab_size": 248320, "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64,
  "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
  "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128,
  "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
  "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0,
                      "partial_rotary_factor": 0.25},
  "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
  "eos_token_id": 248044
})"},
                                                 NamedConfig{"gemma-4-31b", R"({
  "architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "dtype": "bfloat16",
  "vocab_size": 262144, "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60,
  "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 256, "global_head_dim": 512,
  "num_global_key_value_heads": 4, "attention_k_eq_v": true, "sliding_window": 1024,
  "hidden_size_per_layer_input": 0, "final_logit_softcapping": 30.0,
  "rope_parameters": {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,
                       "partial_rotary_factor": 0.25}},
  "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
  "bos_token_id": 2, "eos_token_id": 1
})"},
                                                 NamedConfig{"qwen3-30b-a3b", R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "dtype": "bfloat16",
  "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
  "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
  "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true,
  "decoder_sparse_step": 1, "mlp_only_layers": [], "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": false,
  "bos_token_id": 151643, "eos_token_id": 151645
})"},
                                                 NamedConfig{"qwen3.6-35b-a3b", R"({
  "architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text",
  "dtype": "bfloat16", "vocab_size": 248320, "hidden_size": 2048, "num_hidden_layers": 40,
  "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 256,
  "num_experts_per_tok": 8, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
  "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
  "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
  "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0,
                      "partial_rotary_factor": 0.25},
  "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
  "eos_token_id": 248044
})"},
                                                 NamedConfig{"mixtral-8x7b", R"({
  "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "dtype": "bfloat16",
  "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
  "num_experts_per_tok": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-5,
  "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
  "bos_token_id": 1, "eos_token_id": 2
})"},
                                                 NamedConfig{"glm-4.5-air", R"({
  "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "dtype": "bfloat16",
  "vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944, "num_hidden_layers": 46,
  "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "attention_bias": true,
  "use_qk_norm": false, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8,
  "moe_intermediate_size": 1408, "n_group": 1, "topk_group": 1, "norm_topk_prob": true,
  "routed_scaling_factor": 1.0, "first_k_dense_replace": 1, "partial_rotary_factor": 0.5,
  "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0,
  "tie_word_embeddings": false, "eos_token_id": [151329, 151336, 151338]
})"},
                                                 NamedConfig{"gpt-oss-20b", R"({
  "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "dtype": "bfloat16",
  "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
  "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 32,
  "num_experts_per_tok": 4, "swiglu_limit": 7.0, "attention_bias": true, "sliding_window": 128,
  "rope_theta": 150000.0, "rope_scaling": {"rope_type": "yarn", "factor": 32.0,
    "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 4096,
    "truncate": false},
  "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
    "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]},
  "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
  "eos_token_id": 200002
})"}};

}  // namespace

std::vector<std::string> ModelShapeNames() {
  std::vector<std::string> names;
  names.reserve(kShapes.size());
  for (const NamedConfig& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

absl::StatusOr<ModelShape> FindModelShape(const std::string& name) {
  for (const NamedConfig& shape : kShapes) {
    if (name == shape.name) return ModelShape{shape.name, shape.config};
  }
  return UsageError(absl::StrCat("--shape: there is no \"", name, "\"; there are ",
                                 absl::StrJoin(ModelShapeNames(), ", ")));
}

absl::StatusOr<ShapeFolder> ShapeFolder::Make(const std::string& name) {
  ASSIGN_OR_RETURN(const ModelShape shape, FindModelShape(name));
  std::string path = (std::filesystem::temp_directory_path() / "quire-shape-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    return WithExitCode(kUnavailable,
                        absl::UnavailableError(absl::StrCat("cannot make the folder ", path, ": ",
                                                            std::strerror(errno))));
  }
  ShapeFolder folder(std::move(path));
  std::ofstream file(folder.path_ + "/config.json");
  file << shape.config_json << "\n";
  if (file.flush()) return folder;
  return WithExitCode(kUnavailable, absl::UnavailableError(absl::StrCat(
                                        "cannot write ", folder.path_, "/config.json")));
}

ShapeFolder::ShapeFolder(std::string path)
    : path_(std::move(path)), removal_(std::make_unique<ExitCleanup>([path = path_] {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
      })) {}

ShapeFolder::~ShapeFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

ShapeFolder::ShapeFolder(ShapeFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")), removal_(std::move(other.removal_)) {}

}  // namespace quire::bench
