// ModelFamily: what a config.json leaves unsaid. One row per supported architecture: the class
// defaults that transformers leaves out of sparse configs, and what its code fixes without a key;
// of a model of several parts, those of its text part.
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
  kPattern,      // all but every sliding_window_pattern-th
  kWithoutRope,  // layers without rotary positions, if use_sliding_window is true
};

// Whether attention's last projection has a bias.
enum class OutBias : uint8_t {
  kAsOthers,  // if q, k and v have one
  kOwnKey,    // attention_out_bias says it
  kNone,
};

// Which layers have rotary positions, of those that may.
enum class WindowRopes : uint8_t {
  kAll,
  kWindows,          // those with a window
  kWindowsOfHybrid,  // those with a window, or all where none has one
};

// Of families whose MLPs are mixtures of experts: defaults of keys.
struct RoutedFamily {
  ExpertNames names = ExpertNames::kQwen;
  int64_t num_experts = 0;        // 0: the family has none
  int64_t top_k = 0;              // num_experts_per_tok
  int64_t intermediate_size = 0;  // of an expert; of families that call it intermediate_size, 0
  int64_t shared_intermediate_size = 0;       // of the expert of all tokens; 0: there is none
  std::optional<bool> norm_topk_prob = true;  // unset: it is true, without a key
};

struct ModelFamily {
  absl::string_view architecture;
  absl::string_view model_type;
  // Of a model of several parts, whose text part the rest of the row is about: the model_type in
  // text_config, which has the text part's keys. Empty: config.json is a text model's.
  absl::string_view text_model_type = "";
  bool text_keys_at_top = false;  // where config.json has no text_config

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
  std::optional<double> rope_local_base_freq = std::nullopt;  // unset: sliding layers as the others
  std::optional<int64_t> sliding_window = std::nullopt;
  int64_t max_window_layers = 28;  // of WindowRule::kUpperLayers and kLowerEven
  int64_t window_pattern = 0;      // of WindowRule::kPattern
  int64_t no_rope_interval = 0;    // every n-th layer has no rotary positions; 0: all have
  WindowRopes window_ropes = WindowRopes::kAll;
  // Every n-th layer is full attention whose queries have gates, the others are gated delta nets;
  // norm weights are stored less one. 0: all layers are attention.
  int64_t full_attention_interval = 0;
  // Layers without a window have heads of this size, perhaps other KV heads than the others and
  // values that are keys; the last layers may read the cache of earlier ones. 0: nothing of that.
  int64_t global_head_dim = 0;
  // Without rope_parameters, the layers without a window rotate this share of their pairs
  // (RopeType::kProportional). 0: their rope is the others'.
  double proportional_rotary_factor = 0;
  RoutedFamily routed = {};
  // Without rope_parameters ropes are stretched by yarn without truncation, from 4096 positions.
  bool stretches_rope = false;
  // Reads llama_4_scaling_beta; without rope_parameters ropes are stretched by yarn (Ministral 3).
  bool scales_queries = false;
  int64_t per_layer_input_size = 0;  // of families that have global_head_dim
  std::optional<double> attention_soft_cap = std::nullopt;
  std::optional<double> logit_soft_cap = std::nullopt;
  std::optional<TokenId> bos_token_id = std::nullopt;
  std::array<std::optional<TokenId>, 3> eos_token_ids = {};

  // Fixed by the family.
  WindowRule window_rule = WindowRule::kNone;
  bool has_attention_bias = false;  // reads attention_bias, of q, k and v
  bool attention_bias = false;      // its default, or what holds without the key
  bool has_qkv_bias = false;        // reads qkv_bias, which is true without the key
  OutBias out_bias = OutBias::kAsOthers;
  bool has_mlp_bias = false;  // reads mlp_bias
  HeadNorm qk_norm = HeadNorm::kNone;
  bool has_use_qk_norm = false;  // reads use_qk_norm, without which there is no such norm
  bool attention_sinks = false;
  bool fused_checkpoint = false;  // its authors write qkv_proj and gate_up_proj
  // Models of experts and Mamba layers, of which those are served that have neither: the MLP is the
  // one that experts would share, and position_embedding_type says whether there is a rope.
  bool shared_mlp = false;
  // max_position_embeddings is the length that rope scaling reaches, not the one it begins with.
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
  // Where the file has no hidden_act, or no hidden_activation, as it is called where GELU is usual.
  Activation activation = Activation::kSilu;
  bool has_soft_caps = false;  // reads attn_logit_softcapping and final_logit_softcapping
  // Attention scores are multiplied by attention_scale, else by query_pre_attn_scalar^-0.5, of
  // which this is the default, else by head_dim^-0.5.
  std::optional<double> attention_scale = std::nullopt;
  std::optional<double> query_pre_attn_scalar = std::nullopt;
};

// By the name in config.json's architectures, or by its model_type; nullptr when unsupported.
const ModelFamily* FindFamilyByArchitecture(absl::string_view architecture);
const ModelFamily* FindFamilyByModelType(absl::string_view model_type);
// Of an architecture whose text parts are of several types, the row of this type; nullptr when
// unsupported.
const ModelFamily* FindFamilyByTextType(absl::string_view architecture,
                                        absl::string_view text_model_type);

// What a model is for that does not generate text, as part of an error: "this is an embedding
// model,
// ...". Empty where that does not show.
absl::string_view OtherPurpose(const std::vector<std::string>& architectures,
                               absl::string_view model_type);

// "LlamaForCausalLM, MistralForCausalLM, ...", and "mistral, ministral3", for errors.
std::string SupportedArchitectures();
std::string SupportedTextTypes(absl::string_view architecture);

}  // namespace quire
