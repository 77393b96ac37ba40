// SideExperts (MlpKind::kGatedAndRouted): the additional parts of Gemma 4's experts beside a gated
// MLP: norms of the hidden state for the router and for the experts, and norms of both results. The
// layer adds the sum of the results.
#pragma once

#include "engine/model/blocks/block.h"
#include "engine/model/blocks/routed_mlp.h"
#include "engine/model/weights/memory_carver.h"
#include "engine/model/weights/weight_plan.h"

namespace quire {

struct SideExpertsWeights {
  Tensor router_norm;  // [hidden_size], each
  Tensor expert_norm;
  Tensor mlp_out_norm;
  Tensor expert_out_norm;
};

void PlanWeights(const ModelConfig& config, SideExpertsWeights* weights, ModulePlanner& planner);

class SideExperts {
 public:
  // `experts` runs them, and must outlive this.
  SideExperts(const BlockContext& context, const RoutedMlp& experts)
      : context_(context), experts_(experts) {}

  // Takes the activations' memory.
  void Carve(MemoryCarver* carver);

  // out = norm(out) + norm(experts(norm(hidden))), [num_tokens, hidden_size]; `out` is the gated
  // MLP's result.
  void Run(Stream& stream, const SideExpertsWeights& weights, const RoutedMlpWeights& experts,
           const RoutedMlpConfig& config, const ExpertCounts& counts, const Tensor& hidden,
           const Tensor& out) const;

 private:
  void Norm(Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& out) const;

  BlockContext context_;
  const RoutedMlp& experts_;
  Tensor router_rows_;  // [max_num_batched_tokens, hidden_size], both
  Tensor expert_rows_;
};

}  // namespace quire
