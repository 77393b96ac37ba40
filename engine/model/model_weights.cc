#include "engine/model/model_weights.h"

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

constexpr float kDummyScalar = 1;

void PlanAttention(const ModelConfig& config, const LayerConfig& layer, LayerWeights* weights,
                   ModulePlanner& planner) {
  switch (layer.attention) {
    case AttentionKind::kGqa:
      return PlanWeights(config, layer.gqa, &weights->gqa, planner);
    case AttentionKind::kGatedDelta:
      return PlanWeights(config, layer.delta, &weights->delta, planner);
  }
}

void PlanMlp(const ModelConfig& config, const LayerConfig& layer, LayerWeights* weights,
             ModulePlanner& planner) {
  switch (layer.mlp) {
    case MlpKind::kGated:
      return PlanWeights(config, layer, &weights->gated_mlp, planner);
    case MlpKind::kRouted:
      return PlanWeights(config, layer.routed, &weights->routed_mlp, planner);
    case MlpKind::kGatedAndRouted:
      PlanWeights(config, layer, &weights->gated_mlp, planner);
      PlanWeights(config, layer.routed, &weights->routed_mlp, planner);
      return PlanWeights(config, &weights->side_experts, planner);
  }
}

// Behind attention, before the MLP and behind it.
void PlanSandwich(const ModelConfig& config, LayerWeights* weights, ModulePlanner& planner) {
  const bool is_glm = config.sandwich_names == SandwichNames::kGlm;
  const int64_t hidden = config.hidden_size;
  planner.Norm(&weights->attention_out_norm,
               is_glm ? "post_self_attn_layernorm" : "post_attention_layernorm", hidden);
  planner.Norm(&weights->mlp_norm,
               is_glm ? "post_attention_layernorm" : "pre_feedforward_layernorm", hidden);
  planner.Norm(&weights->mlp_out_norm, is_glm ? "post_mlp_layernorm" : "post_feedforward_layernorm",
               hidden);
}

void PlanLayer(const ModelConfig& config, const LayerConfig& layer, LayerWeights* weights,
               ModulePlanner& planner) {
  const int64_t hidden = config.hidden_size;
  if (config.block_order != BlockOrder::kPostNorm) {
    planner.Norm(&weights->input_norm, "input_layernorm", hidden);
  }
  PlanAttention(config, layer, weights, planner);
  switch (config.block_order) {
    case BlockOrder::kPreNorm:
      planner.Norm(&weights->mlp_norm, "post_attention_layernorm", hidden);
      break;
    case BlockOrder::kSandwich:
      PlanSandwich(config, weights, planner);
      break;
    case BlockOrder::kPostNorm:
      planner.Norm(&weights->attention_out_norm, "post_attention_layernorm", hidden);
      planner.Norm(&weights->mlp_out_norm, "post_feedforward_layernorm", hidden);
      break;
    case BlockOrder::kParallel:
      break;
  }
  PlanMlp(config, layer, weights, planner);
  if (config.per_layer_input.size > 0) PlanWeights(config, &weights->per_layer_input, planner);
  if (config.layer_scalars) planner.Parameter(&weights->scalar, "layer_scalar", 1, kDummyScalar);
}

}  // namespace

WeightPlan PlanWeights(const ModelConfig& config, const TextPart& part, ModelWeights* weights) {
  WeightPlan plan;
  plan.part = part;
  const ModulePlanner::Conventions conventions = {
      .norm_offset = config.norm == NormKind::kRmsPlusOne ? 1.0f : 0.0f,
      .fused = config.fused_checkpoint};
  ModulePlanner ends(part.prefix, conventions, &plan);
  ends.Embedding(&weights->embedding, config.hidden_size, {"embed_tokens", config.vocab_size});
  ends.Norm(&weights->final_norm, "norm", config.hidden_size);
  if (config.per_layer_input.size > 0) PlanWeights(config, &weights->per_layer_input, ends);
  if (!config.tie_word_embeddings) {
    ModulePlanner("", conventions, &plan)
        .Head(&weights->lm_head, config.hidden_size, {part.head, config.vocab_size});
  }
  weights->layers.resize(config.layers.size());
  for (size_t i = 0; i < config.layers.size(); ++i) {
    ModulePlanner planner(absl::StrCat(part.prefix, "layers.", i, "."), conventions, &plan);
    PlanLayer(config, config.layers[i], &weights->layers[i], planner);
  }
  for (int64_t i = 0; i < config.num_draft_layers; ++i) {
    const auto layer = static_cast<int64_t>(config.layers.size()) + i;
    plan.spare_prefixes.push_back(absl::StrCat(part.prefix, "layers.", layer, "."));
  }
  return plan;
}

}  // namespace quire
