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

void AddVector(Tensor* tensor, float dummy_value, float offset, std::vector<WeightPart> parts,
               WeightPlan* plan) {
  const int64_t size = TotalRows(parts);
  plan->vectors.push_back({tensor, size, std::move(parts), dummy_value, offset});
}

float NormOffset(const ModelConfig& config) { return config.norm_plus_one ? 1.0f : 0.0f; }

constexpr float kDummyNorm = 1.0f;
constexpr float kDummyBias = 0.0f;

// Appends the parts of one layer.
class LayerPlanner {
 public:
  LayerPlanner(const ModelConfig& config, int layer, LayerWeights* weights, WeightPlan* plan)
      : config_(config),
        prefix_(absl::StrCat("model.layers.", layer, ".")),
        weights_(weights),
        plan_(plan) {}

  void PlanAttention() {
    const int64_t hidden = config_.hidden_size;
    const int64_t q_size = int64_t{config_.num_q_heads} * config_.head_dim;
    const int64_t kv_size = int64_t{config_.num_kv_heads} * config_.head_dim;
    Norm(&weights_->input_norm, "input_layernorm", hidden);
    if (config_.fused_checkpoint) {
      Matrix(&weights_->qkv, hidden, {{"self_attn.qkv_proj", q_size + 2 * kv_size}});
    } else {
      const std::vector<Part> parts = {{"self_attn.q_proj", q_size},
                                       {"self_attn.k_proj", kv_size},
                                       {"self_attn.v_proj", kv_size}};
      Matrix(&weights_->qkv, hidden, parts);
      if (config_.qkv_bias) Bias(&weights_->qkv_bias, parts);
    }
    if (config_.qk_norm) {
      Norm(&weights_->q_norm, "self_attn.q_norm", config_.head_dim);
      Norm(&weights_->k_norm, "self_attn.k_norm", config_.head_dim);
    }
    Matrix(&weights_->o, q_size, {{"self_attn.o_proj", hidden}});
    if (config_.o_bias) Bias(&weights_->o_bias, {{"self_attn.o_proj", hidden}});
  }

  void PlanMlp() {
    const int64_t hidden = config_.hidden_size;
    const int64_t inner = config_.intermediate_size;
    if (config_.sandwich_norms) {
      Norm(&weights_->attention_out_norm, "post_attention_layernorm", hidden);
      Norm(&weights_->mlp_norm, "pre_feedforward_layernorm", hidden);
      Norm(&weights_->mlp_out_norm, "post_feedforward_layernorm", hidden);
    } else {
      Norm(&weights_->mlp_norm, "post_attention_layernorm", hidden);
    }
    if (config_.fused_checkpoint) {
      Matrix(&weights_->gate_up, hidden, {{"mlp.gate_up_proj", 2 * inner}});
    } else {
      const std::vector<Part> parts = {{"mlp.gate_proj", inner}, {"mlp.up_proj", inner}};
      Matrix(&weights_->gate_up, hidden, parts);
      if (config_.mlp_bias) Bias(&weights_->gate_up_bias, parts);
    }
    Matrix(&weights_->down, inner, {{"mlp.down_proj", hidden}});
    if (config_.mlp_bias) Bias(&weights_->down_bias, {{"mlp.down_proj", hidden}});
  }

 private:
  // A module of the checkpoint and the rows of its weight.
  struct Part {
    absl::string_view module;
    int64_t num_rows;
  };

  std::vector<WeightPart> Named(absl::string_view kind, const std::vector<Part>& parts) const {
    std::vector<WeightPart> named;
    named.reserve(parts.size());
    for (const Part& part : parts) {
      named.push_back({absl::StrCat(prefix_, part.module, kind), part.num_rows});
    }
    return named;
  }
  void Matrix(LinearWeight* weight, int64_t in_features, const std::vector<Part>& parts) {
    AddMatrix(weight, in_features, Named(".weight", parts), plan_);
  }
  void Bias(Tensor* tensor, const std::vector<Part>& parts) {
    AddVector(tensor, kDummyBias, 0, Named(".bias", parts), plan_);
  }
  void Norm(Tensor* tensor, absl::string_view module, int64_t size) {
    AddVector(tensor, kDummyNorm, NormOffset(config_), Named(".weight", {{module, size}}), plan_);
  }

  const ModelConfig& config_;
  const std::string prefix_;
  LayerWeights* const weights_;
  WeightPlan* const plan_;
};

}  // namespace

void PlanLayer(const ModelConfig& config, int layer, LayerWeights* weights, WeightPlan* plan) {
  LayerPlanner planner(config, layer, weights, plan);
  planner.PlanAttention();
  planner.PlanMlp();
}

void PlanEnds(const ModelConfig& config, LinearWeight* embedding, LinearWeight* lm_head,
              Tensor* final_norm, WeightPlan* plan) {
  AddMatrix(embedding, config.hidden_size, {{"model.embed_tokens.weight", config.vocab_size}},
            plan);
  AddVector(final_norm, kDummyNorm, NormOffset(config), {{"model.norm.weight", config.hidden_size}},
            plan);
  if (!config.tie_word_embeddings) {
    AddMatrix(lm_head, config.hidden_size, {{"lm_head.weight", config.vocab_size}}, plan);
  }
}

}  // namespace quire
