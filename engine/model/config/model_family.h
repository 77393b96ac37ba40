// ModelFamily: the values that a config.json does not say. There is one row per supported
// architecture: the class defaults that transformers leaves out of sparse configs, and the values
// that its code fixes without a key. If a model has several parts, the row describes its text part.
// Constant data; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/model/config/model_config.h"
#include "kernels/base/types.h"

namespace quire {

// Which layers slide when the config has no layer_types.
enum class WindowRule : uint8_t {
  kNone,         // no layer
  kEveryLayer,   // all layers, if sliding_window is set
  kAllIfUsed,    // all layers, if use_sliding_window is true
  kUpperLayers,  // layers from max_window_layers on, if use_sliding_window is true
  kLowerEven,    // layers 0, 2, 4 .. below max_window_layers, if use_sliding_window is true
  kPattern,      // all except every sliding_window_pattern-th
  kWithoutRope,  // layers without rotary positions, if use_sliding_window is true
};

// Whether attention's last projection has a bias.
enum class OutBias : uint8_t {
  kAsOthers,  // if q, k and v have one
  kOwnKey,    // attention_out_bias says it
  kNone,
};

// Which layers have rotary positions, among those that may.
enum class WindowRopes : uint8_t {
  kAll,
  kWindows,          // those with a window
  kWindowsOfHybrid,  // those with a window, or all if none has one
};

// Defaults of keys for families whose MLPs are mixtures of experts.
struct RoutedFamily {
  ExpertNames names = ExpertNames::kQwen;
  int64_t num_experts = 0;        // 0: the family has none
  int64_t top_k = 0;              // num_experts_per_tok
  int64_t intermediate_size = 0;  // of an expert; 0 for families that call it intermediate_size
  int64_t shared_intermediate_size = 0;       // of the expert of all tokens; 0: there is none
  std::optional<bool> norm_topk_prob = true;  // unset: it is true, without a key
};

struct ModelFamily {
  absl::string_view architecture;
  absl::string_view model_type;
  // For a model of several parts: the model_type in text_config, which has the text part's keys.
  // The rest of the row is about the text part. Empty: config.json belongs to a text model.
  absl::string_view text_model_type = "";
  bool text_keys_at_top = false;  // if config.json has no text_config

  // Defaults of keys.
  int64_t vocab_size;
  int64_t hidden_size = 4096;
  int64_t intermediate_size;
  int64_t num_layers = 32;
  int64_t num_q_heads = 32;
  std::optional<int64_t> num_kv_heads = std::nullopt;  // unset: as many as query heads
  std::optional<int64_t> head_dim = std::nullopt;      // unset: hidden_size / num_attention_heads
  double norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  int64_t max_position_embeddings;
  double rope_theta = 10000.0;
  double partial_rotary_factor = 1.0;
  bool rotates_neighbours = false;  // rotary pairs are neighbours, not of a head's two halves
  std::optional<double> rope_local_base_freq = std::nullopt;  // unset: sliding layers as others
  std::optional<int64_t> sliding_window = std::nullopt;
  int64_t max_window_layers = 28;  // of WindowRule::kUpperLayers and kLowerEven
  int64_t window_pattern = 0;      // of WindowRule::kPattern
  int64_t no_rope_interval = 0;    // every n-th layer has no rotary positions; 0: all have
  WindowRopes window_ropes = WindowRopes::kAll;
  // Every n-th layer has full attention, and its queries have gates. The others are gated delta
  // nets. Stored norm weights are smaller by one. 0: all layers are attention.
  int64_t full_attention_interval = 0;
  // Layers without a window have heads of this size. They may have other KV heads than the other
  // layers, and values that are keys. The last layers may read the cache of earlier ones. 0: none
  // of this.
  int64_t global_head_dim = 0;
  // Without rope_parameters, the layers without a window rotate this share of their pairs
  // (RopeType::kProportional). 0: they have the same rope as the others.
  double proportional_rotary_factor = 0;
  RoutedFamily routed = {};
  // Without rope_parameters ropes are stretched by yarn without truncation, from 4096 positions.
  bool stretches_rope = false;
  // Reads llama_4_scaling_beta; without rope_parameters ropes are stretched by yarn (Ministral 3).
  bool scales_queries = false;
  int64_t per_layer_input_size = 0;  // for families that have global_head_dim
  std::optional<double> attention_soft_cap = std::nullopt;
  std::optional<double> logit_soft_cap = std::nullopt;
  std::optional<TokenId> bos_token_id = std::nullopt;
  std::array<std::optional<TokenId>, 3> eos_token_ids = {};

  // Fixed by the family.
  WindowRule window_rule = WindowRule::kNone;
  bool has_attention_bias = false;  // reads attention_bias, of q, k and v
  bool attention_bias = false;      // its default, or the value without the key
  bool has_qkv_bias = false;        // reads qkv_bias, which is true without the key
  OutBias out_bias = OutBias::kAsOthers;
  bool has_mlp_bias = false;  // reads mlp_bias
  HeadNorm qk_norm = HeadNorm::kNone;
  bool has_use_qk_norm = false;  // reads use_qk_norm; without that key there is no such norm
  bool attention_sinks = false;
  bool fused_checkpoint = false;  // its authors write qkv_proj and gate_up_proj
  // The family has models with experts and Mamba layers. Quire serves only those that have neither.
  // Their MLP is the one that experts would share, and position_embedding_type says whether there
  // is a rope.
  bool shared_mlp = false;
  // max_position_embeddings is the length after rope scaling, not the length before it.
  bool positions_are_stretched = false;
  BlockOrder block_order = BlockOrder::kPreNorm;
  SandwichNames sandwich_names = SandwichNames::kGemma;
  NormKind norm = NormKind::kRms;
  bool v_norm = false;
  bool layer_scalars = false;
  bool scales_embedding = false;                     // by sqrt(hidden_size)
  std::optional<double> logit_scale = std::nullopt;  // reads logit_scale, with this default
  // Reads embedding_multiplier, attention_multiplier, residual_multiplier and logits_scaling.
  bool has_multipliers = false;
  // Used if the file has no hidden_act and no hidden_activation, which is its name in families
  // where GELU is usual.
  Activation activation = Activation::kSilu;
  bool has_soft_caps = false;  // reads attn_logit_softcapping and final_logit_softcapping
  // Attention scores are multiplied by attention_scale; else by query_pre_attn_scalar^-0.5, whose
  // default this is; else by head_dim^-0.5.
  std::optional<double> attention_scale = std::nullopt;
  std::optional<double> query_pre_attn_scalar = std::nullopt;
};

// Finds a row by the name in config.json's architectures, or by its model_type; nullptr if
// unsupported.
const ModelFamily* FindFamilyByArchitecture(absl::string_view architecture);
const ModelFamily* FindFamilyByModelType(absl::string_view model_type);
// The row of this type, for an architecture whose text parts have several types; nullptr if
// unsupported.
const ModelFamily* FindFamilyByTextType(absl::string_view architecture,
                                        absl::string_view text_model_type);

// The purpose of a model that does not generate text, as part of an error: "this is an embedding
// model, ...". Empty if the names do not show it.
absl::string_view OtherPurpose(const std::vector<std::string>& architectures,
                               absl::string_view model_type);

// "LlamaForCausalLM, MistralForCausalLM, ...", and "mistral, ministral3", for errors.
std::string SupportedArchitectures();
std::string SupportedTextTypes(absl::string_view architecture);

}  // namespace quire
