#include "engine/model/blocks/side_experts.h"

#include <algorithm>
#include <cmath>

namespace quire {

void PlanWeights(const ModelConfig& config, SideExpertsWeights* weights, ModulePlanner& planner) {
  const int64_t hidden = config.hidden_size;
  // The router's input is also divided by the root of its size.
  const float scale = 1 / std::sqrt(static_cast<float>(hidden));
  planner.Parameter(&weights->router_norm, "router.scale", hidden, scale, {}, scale);
  planner.Norm(&weights->expert_norm, "pre_feedforward_layernorm_2", hidden);
  planner.Norm(&weights->mlp_out_norm, "post_feedforward_layernorm_1", hidden);
  planner.Norm(&weights->expert_out_norm, "post_feedforward_layernorm_2", hidden);
}

void SideExperts::Carve(MemoryCarver* carver) {
  const ModelConfig& config = *context_.config;
  const bool has_some =
      std::any_of(config.layers.begin(), config.layers.end(),
                  [](const LayerConfig& layer) { return layer.mlp == MlpKind::kGatedAndRouted; });
  if (!has_some) return;
  const int64_t num_tokens = context_.limits.max_num_batched_tokens;
  router_rows_ = carver->TakeTensor(context_.dtype, {num_tokens, config.hidden_size});
  expert_rows_ = carver->TakeTensor(context_.dtype, {num_tokens, config.hidden_size});
}

void SideExperts::Run(Stream& stream, const SideExpertsWeights& weights,
                      const RoutedMlpWeights& experts, const RoutedMlpConfig& config,
                      const ExpertCounts& counts, const Tensor& hidden, const Tensor& out) const {
  const int64_t num_tokens = hidden.dim(0);
  const Tensor router_rows = Rows(router_rows_, num_tokens);
  const Tensor expert_rows = Rows(expert_rows_, num_tokens);
  Norm(stream, out, weights.mlp_out_norm, out);
  Norm(stream, hidden, weights.router_norm, router_rows);
  Norm(stream, hidden, weights.expert_norm, expert_rows);
  experts_.Run(
      stream, experts, config,
      {.router_rows = router_rows, .rows = expert_rows, .shared_rows = {}, .counts = counts},
      expert_rows);
  Norm(stream, expert_rows, weights.expert_out_norm, expert_rows);
  context_.ops->Add(stream, {.x = out, .y = expert_rows});
}

void SideExperts::Norm(Stream& stream, const Tensor& x, const Tensor& weight,
                       const Tensor& out) const {
  context_.ops->RmsNorm(stream,
                        {.x = x, .weight = weight, .eps = context_.config->norm_eps, .out = out});
}

}  // namespace quire
