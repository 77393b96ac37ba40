#include "engine/model/blocks/gated_mlp.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace quire {

namespace {

// Of which a layer's gated MLP consists, or the expert of a routed one that all tokens have.
int64_t WidthOf(const LayerConfig& layer) {
  return layer.mlp == MlpKind::kRouted ? layer.routed.shared_intermediate_size
                                       : layer.intermediate_size;
}

struct MlpNames {
  std::vector<ModulePlanner::Module> gate_up;
  absl::string_view fused;  // or empty
  absl::string_view down;
};

void PlanWeights(const ModelConfig& config, int64_t inner, const MlpNames& names,
                 GatedMlpWeights* weights, ModulePlanner& planner) {
  planner.Linear(&weights->gate_up, config.hidden_size, names.gate_up,
                 {.bias = config.mlp_bias ? &weights->gate_up_bias : nullptr,
                  .fused = names.fused,
                  .gated = true,
                  .normed = config.block_order != BlockOrder::kPostNorm});
  planner.Linear(&weights->down, inner, {{names.down, config.hidden_size}},
                 {.bias = config.mlp_bias ? &weights->down_bias : nullptr});
}

}  // namespace

void PlanWeights(const ModelConfig& config, const LayerConfig& layer, GatedMlpWeights* weights,
                 ModulePlanner& planner) {
  const int64_t inner = layer.intermediate_size;
  if (!config.shared_mlp) return PlanWeights(config, "mlp.", inner, weights, planner);
  PlanWeights(config, inner,
              {{{"shared_mlp.input_linear", 2 * inner}}, "", "shared_mlp.output_linear"}, weights,
              planner);
}

void PlanWeights(const ModelConfig& config, absl::string_view prefix, int64_t intermediate_size,
                 GatedMlpWeights* weights, ModulePlanner& planner) {
  const auto name = [prefix](absl::string_view module) { return absl::StrCat(prefix, module); };
  const std::string gate = name("gate_proj"), up = name("up_proj"), down = name("down_proj");
  const std::string fused = name("gate_up_proj");
  PlanWeights(config, intermediate_size,
              {{{gate, intermediate_size}, {up, intermediate_size}}, fused, down}, weights,
              planner);
}

void GatedMlp::Carve(MemoryCarver* carver) {
  const int64_t num_tokens = context_.limits.max_num_batched_tokens;
  int64_t inner = 0;
  for (const LayerConfig& layer : context_.config->layers) inner = std::max(inner, WidthOf(layer));
  if (inner == 0) return;
  gate_up_ = carver->TakeTensor(context_.dtype, {num_tokens, 2 * inner});
  inner_ = carver->TakeTensor(context_.dtype, {num_tokens, inner});
}

void GatedMlp::Run(Stream& stream, const GatedMlpWeights& weights, const Tensor& x,
                   const Tensor& out) const {
  const Tensor inner = Begin(inner_, {x.dim(0), weights.down.in_features});
  context_.ops->GatedLinear(stream,
                            {.x = x,
                             .weight = &weights.gate_up,
                             .bias = weights.gate_up_bias,
                             .activation = context_.config->activation,
                             .gate_up = Begin(gate_up_, {x.dim(0), weights.gate_up.out_features}),
                             .out = inner});
  context_.ops->Linear(
      stream, {.x = inner, .weight = &weights.down, .bias = weights.down_bias, .out = out});
}

}  // namespace quire
