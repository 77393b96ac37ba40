// RoutedMlp (MlpKind::kRouted): a router chooses some of many experts for each token. Experts are
// gated MLPs; their results are added, weighted by the router. There may be another expert that all
// tokens have.
#pragma once

#include "engine/model/blocks/block.h"
#include "engine/model/blocks/gated_mlp.h"
#include "engine/model/weights/memory_carver.h"
#include "engine/model/weights/weight_plan.h"

namespace quire {

struct RoutedMlpWeights {
  LinearWeight router;     // [num_experts, hidden_size], a row more if the shared expert has a gate
  Tensor router_bias;      // [num_experts] or empty
  Tensor correction;       // [num_experts] or empty: RouteArgs::correction
  Tensor expert_scales;    // [num_experts] or empty: RouteArgs::expert_scales
  LinearWeight gate_up;    // num_experts of [2 * intermediate_size, hidden_size], gate first
  Tensor gate_up_bias;     // [num_experts * 2 * intermediate_size] or empty
  LinearWeight down;       // num_experts of [hidden_size, intermediate_size]
  Tensor down_bias;        // [num_experts * hidden_size] or empty
  GatedMlpWeights shared;  // set if there is a shared expert
};

void PlanWeights(const ModelConfig& config, const RoutedMlpConfig& layer, RoutedMlpWeights* weights,
                 ModulePlanner& planner);

// The counts in a layer's RouteArgs; empty if nobody counts.
struct ExpertCounts {
  Tensor counts;
  const int64_t* slots = nullptr;
};

class RoutedMlp {
 public:
  // `shared` runs the experts that all tokens have, and must outlive this.
  RoutedMlp(const BlockContext& context, const GatedMlp& shared)
      : context_(context), shared_(shared) {}

  // Takes the activations' memory.
  void Carve(MemoryCarver* carver);

  // The inputs of the MLP, normed.
  struct Input {
    Tensor router_rows;  // [num_tokens, hidden_size]
    Tensor rows;         // for the experts: the same, or another norm's
    Tensor shared_rows;  // for the shared expert, if there is one: the same, or Float8Rows
    ExpertCounts counts = {};
  };
  // out = MLP(x), [num_tokens, hidden_size]; x may be out.
  void Run(Stream& stream, const RoutedMlpWeights& weights, const RoutedMlpConfig& layer,
           const Input& x, const Tensor& out) const;

 private:
  Routing RoutingOf(const RouterRule& rule, int64_t num_tokens) const;

  BlockContext context_;
  const GatedMlp& shared_;
  // Each has room for max_num_batched_tokens tokens of the layer in which a token takes most.
  Tensor logits_;   // float32, one of a token for each row of the router
  Tensor experts_;  // of Routing; top_k of a token
  Tensor weights_;
  Tensor pairs_;
  Tensor offsets_;
  Tensor room_;      // of each pair, gates and ups, and after them the rows that are added
  Tensor inner_;     // of each pair
  Tensor sorted_x_;  // likewise; of quantized weights on a GPU, else empty
};

}  // namespace quire
