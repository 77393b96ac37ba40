#include "engine/model/blocks/routed_mlp.h"

#include <algorithm>
#include <vector>

#include "kernels/base/columns.h"

namespace quire {
namespace {

// How a family's checkpoints call the modules.
struct RoutedNames {
  absl::string_view router;
  absl::string_view experts;
  absl::string_view gate, up, down;  // of each expert; empty: all experts are one tensor
  absl::string_view shared = "";     // begins the modules of the shared expert
};

RoutedNames NamesOf(ExpertNames names) {
  switch (names) {
    case ExpertNames::kQwen:
      return {"mlp.gate", "mlp.experts", "gate_proj", "up_proj", "down_proj", "mlp.shared_expert."};
    case ExpertNames::kMixtral:
      return {"block_sparse_moe.gate", "block_sparse_moe.experts", "w1", "w3", "w2"};
    case ExpertNames::kGlm:
      return {"mlp.gate", "mlp.experts", "gate_proj",
              "up_proj",  "down_proj",   "mlp.shared_experts."};
    case ExpertNames::kGptOss:
      return {"mlp.router", "mlp.experts", "", "", ""};
    case ExpertNames::kGemma:
      return {"router.proj", "experts", "gate_proj", "up_proj", "down_proj"};
  }
  return {};
}

void PlanRouter(const ModelConfig& config, const RoutedMlpConfig& layer, const RoutedNames& names,
                RoutedMlpWeights* weights, ModulePlanner& planner) {
  const int64_t num_experts = layer.router.num_experts;
  std::vector<ModulePlanner::Module> modules = {{names.router, num_experts}};
  if (layer.shared_gate) modules.push_back({"mlp.shared_expert_gate", 1});
  planner.Linear(&weights->router, config.hidden_size, modules,
                 {.bias = layer.router_bias ? &weights->router_bias : nullptr,
                  .normed = config.block_order != BlockOrder::kPostNorm,
                  .float32_out = true,
                  .routes = true,
                  .role = MatrixRole::kGates});
  if (layer.router_correction) {
    planner.Parameter(&weights->correction, "mlp.gate.e_score_correction_bias", num_experts);
  }
  if (layer.expert_scales) {
    planner.Parameter(&weights->expert_scales, "router.per_expert_scale", num_experts, 1);
  }
}

}  // namespace

void PlanWeights(const ModelConfig& config, const RoutedMlpConfig& layer, RoutedMlpWeights* weights,
                 ModulePlanner& planner) {
  const RoutedNames names = NamesOf(config.expert_names);
  const int64_t hidden = config.hidden_size, inner = layer.intermediate_size;
  PlanRouter(config, layer, names, weights, planner);
  ModulePlanner::ExpertTraits traits = {.num_experts = layer.router.num_experts,
                                        .top_k = layer.router.top_k,
                                        .name = names.experts,
                                        .stacked = "gate_up_proj",
                                        .gated = true};
  ModulePlanner::ExpertTraits down_traits = traits;
  down_traits.stacked = "down_proj";
  down_traits.gated = false;
  if (layer.expert_bias) {
    traits.bias = &weights->gate_up_bias;
    down_traits.bias = &weights->down_bias;
  }
  // gpt-oss: a gate and its up are neighbours.
  if (names.gate.empty()) traits.turns = {1, 1};
  const auto modules = [&](const std::vector<ModulePlanner::Module>& of_each) {
    return names.gate.empty() ? std::vector<ModulePlanner::Module>() : of_each;
  };
  planner.Experts(&weights->gate_up, 2 * inner, hidden,
                  modules({{names.gate, inner}, {names.up, inner}}), traits);
  planner.Experts(&weights->down, hidden, inner, modules({{names.down, hidden}}), down_traits);
  if (layer.shared_intermediate_size > 0) {
    PlanWeights(config, names.shared, layer.shared_intermediate_size, &weights->shared, planner);
  }
}

void RoutedMlp::Carve(MemoryCarver* carver) {
  const int64_t num_tokens = context_.limits.max_num_batched_tokens;
  const int64_t hidden = context_.config->hidden_size;
  int64_t num_experts = 0, top_k = 0, room = 0, inner = 0;
  for (const LayerConfig& layer : context_.config->layers) {
    if (layer.mlp == MlpKind::kGated) continue;
    const RoutedMlpConfig& mlp = layer.routed;
    const int64_t k = mlp.router.top_k;
    num_experts = std::max<int64_t>(num_experts, mlp.router.num_experts);
    top_k = std::max(top_k, k);
    room = std::max(room, k * std::max(2 * mlp.intermediate_size, hidden));
    inner = std::max(inner, k * mlp.intermediate_size);
  }
  if (num_experts == 0) return;
  logits_ = carver->TakeTensor(DType::kF32, {num_tokens, num_experts + 1});
  experts_ = carver->TakeTensor(DType::kI32, {num_tokens, top_k});
  weights_ = carver->TakeTensor(DType::kF32, {num_tokens, top_k});
  pairs_ = carver->TakeTensor(DType::kI32, {num_tokens * top_k});
  offsets_ = carver->TakeTensor(DType::kI32, {num_experts + 1});
  room_ = carver->TakeTensor(context_.dtype, {num_tokens, room});
  inner_ = carver->TakeTensor(context_.dtype, {num_tokens, inner});
  const bool is_quantized = context_.config->quantization.quantized() ||
                            context_.config->load_quantization != LoadQuantization::kNone;
  if (is_quantized && context_.limits.device == DeviceKind::kCuda) {
    sorted_x_ = carver->TakeTensor(context_.dtype, {num_tokens, top_k * hidden});
  }
}

Routing RoutedMlp::RoutingOf(const RouterRule& rule, int64_t num_tokens) const {
  const int64_t top_k = rule.top_k;
  return {.experts = Begin(experts_, {num_tokens, top_k}),
          .weights = Begin(weights_, {num_tokens, top_k}),
          .pairs = Begin(pairs_, {num_tokens * top_k}),
          .offsets = Begin(offsets_, {int64_t{rule.num_experts} + 1})};
}

void RoutedMlp::Run(Stream& stream, const RoutedMlpWeights& weights, const RoutedMlpConfig& layer,
                    const Input& x, const Tensor& out) const {
  const auto of_experts = [](const Tensor& bias, const LinearWeight& weight) {
    return bias.empty() ? Tensor() : Begin(bias, {weight.num_experts, weight.out_features});
  };
  const int64_t num_tokens = x.rows.dim(0), num_experts = layer.router.num_experts;
  const Routing routing = RoutingOf(layer.router, num_tokens);
  const int64_t num_pairs = routing.num_pairs();
  const Tensor logits = Begin(logits_, {num_tokens, weights.router.out_features});
  context_.ops->Linear(
      stream,
      {.x = x.router_rows, .weight = &weights.router, .bias = weights.router_bias, .out = logits});
  context_.ops->Route(stream, {.logits = Columns(logits, 0, num_experts),
                               .rule = layer.router,
                               .correction = weights.correction,
                               .expert_scales = weights.expert_scales,
                               .counts = x.counts.counts,
                               .slots = x.counts.slots,
                               .out = routing});
  const Tensor inner = Begin(inner_, {num_pairs, layer.intermediate_size});
  context_.ops->ExpertsGatedLinear(
      stream,
      {.x = x.rows,
       .weight = &weights.gate_up,
       .bias = of_experts(weights.gate_up_bias, weights.gate_up),
       .activation = context_.config->activation,
       .routing = routing,
       .gate_up = Begin(room_, {num_pairs, weights.gate_up.out_features}),
       .sorted_x = sorted_x_.empty() ? Tensor() : Begin(sorted_x_, {num_pairs, x.rows.dim(1)}),
       .out = inner});
  // From here on nobody reads x but the shared expert, whose result may stand where x was.
  const bool has_shared = layer.shared_intermediate_size > 0;
  if (has_shared) shared_.Run(stream, weights.shared, x.shared_rows, out);
  context_.ops->ExpertsLinear(
      stream, {.x = inner,
               .weight = &weights.down,
               .bias = of_experts(weights.down_bias, weights.down),
               .routing = routing,
               .rows = Begin(room_, {num_pairs, weights.down.out_features}),
               .add = has_shared ? out : Tensor(),
               .add_gate = layer.shared_gate ? Columns(logits, num_experts, 1) : Tensor(),
               .out = out});
}

}  // namespace quire
