#include "engine/model/weight_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

int64_t TotalRows(const std::vector<WeightPart>& parts) {
  int64_t rows = 0;
  for (const WeightPart& part : parts) rows += part.num_rows;
  return rows;
}

void AddMatrix(LinearWeight* weight, int64_t in_features, std::vector<WeightPart> parts,
               WeightPlan* plan) {
  weight->out_features = TotalRows(parts);
  weight->in_features = in_features;
  plan->matrices.push_back({weight, std::move(parts)});
}

void AddVector(Tensor* tensor, float dummy_value, std::vector<WeightPart> parts, WeightPlan* plan) {
  const int64_t size = TotalRows(parts);
  plan->vectors.push_back({tensor, size, std::move(parts), dummy_value});
}

constexpr float kDummyNorm = 1.0f;
constexpr float kDummyBias = 0.0f;

}  // namespace

void PlanLayer(const ModelConfig& config, int layer, LayerWeights* weights, WeightPlan* plan) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t q_size = int64_t{config.num_q_heads} * config.head_dim;
  const int64_t kv_size = int64_t{config.num_kv_heads} * config.head_dim;
  const std::string prefix = absl::StrCat("model.layers.", layer, ".");
  const auto part = [&](absl::string_view name, int64_t num_rows) {
    return WeightPart{absl::StrCat(prefix, name), num_rows};
  };

  AddVector(&weights->input_norm, kDummyNorm, {part("input_layernorm.weight", hidden)}, plan);
  AddMatrix(&weights->qkv, hidden,
            {part("self_attn.q_proj.weight", q_size), part("self_attn.k_proj.weight", kv_size),
             part("self_attn.v_proj.weight", kv_size)},
            plan);
  if (config.qkv_bias) {
    AddVector(&weights->qkv_bias, kDummyBias,
              {part("self_attn.q_proj.bias", q_size), part("self_attn.k_proj.bias", kv_size),
               part("self_attn.v_proj.bias", kv_size)},
              plan);
  }
  if (config.qk_norm) {
    AddVector(&weights->q_norm, kDummyNorm, {part("self_attn.q_norm.weight", config.head_dim)},
              plan);
    AddVector(&weights->k_norm, kDummyNorm, {part("self_attn.k_norm.weight", config.head_dim)},
              plan);
  }
  AddMatrix(&weights->o, q_size, {part("self_attn.o_proj.weight", hidden)}, plan);
  if (config.o_bias) {
    AddVector(&weights->o_bias, kDummyBias, {part("self_attn.o_proj.bias", hidden)}, plan);
  }
  AddVector(&weights->post_attention_norm, kDummyNorm,
            {part("post_attention_layernorm.weight", hidden)}, plan);
  AddMatrix(&weights->gate_up, hidden,
            {part("mlp.gate_proj.weight", inner), part("mlp.up_proj.weight", inner)}, plan);
  AddMatrix(&weights->down, inner, {part("mlp.down_proj.weight", hidden)}, plan);
  if (config.mlp_bias) {
    AddVector(&weights->gate_up_bias, kDummyBias,
              {part("mlp.gate_proj.bias", inner), part("mlp.up_proj.bias", inner)}, plan);
    AddVector(&weights->down_bias, kDummyBias, {part("mlp.down_proj.bias", hidden)}, plan);
  }
}

void PlanEnds(const ModelConfig& config, LinearWeight* embedding, LinearWeight* lm_head,
              Tensor* final_norm, WeightPlan* plan) {
  AddMatrix(embedding, config.hidden_size, {{"model.embed_tokens.weight", config.vocab_size}},
            plan);
  AddVector(final_norm, kDummyNorm, {{"model.norm.weight", config.hidden_size}}, plan);
  if (!config.tie_word_embeddings) {
    AddMatrix(lm_head, config.hidden_size, {{"lm_head.weight", config.vocab_size}}, plan);
  }
}

}  // namespace quire
