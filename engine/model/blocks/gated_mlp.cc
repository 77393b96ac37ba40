#include "engine/model/blocks/gated_mlp.h"

#include <algorithm>
#include <vector>

namespace quire {

void PlanWeights(const ModelConfig& config, const LayerConfig& layer, GatedMlpWeights* weights,
                 ModulePlanner& planner) {
  const int64_t hidden = config.hidden_size, inner = layer.intermediate_size;
  std::vector<ModulePlanner::Module> gate_up = {{"mlp.gate_proj", inner}, {"mlp.up_proj", inner}};
  if (config.shared_mlp) gate_up = {{"shared_mlp.input_linear", 2 * inner}};
  planner.Linear(&weights->gate_up, hidden, gate_up,
                 {.bias = config.mlp_bias ? &weights->gate_up_bias : nullptr,
                  .fused = config.shared_mlp ? "" : "mlp.gate_up_proj",
                  .gated = true,
                  .normed = config.block_order != BlockOrder::kPostNorm});
  planner.Linear(&weights->down, inner,
                 {{config.shared_mlp ? "shared_mlp.output_linear" : "mlp.down_proj", hidden}},
                 {.bias = config.mlp_bias ? &weights->down_bias : nullptr});
}

void GatedMlp::Carve(MemoryCarver* carver) {
  const int64_t num_tokens = context_.limits.max_num_batched_tokens;
  int64_t inner = 0;
  for (const LayerConfig& layer : context_.config->layers) {
    inner = std::max(inner, layer.intermediate_size);
  }
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
