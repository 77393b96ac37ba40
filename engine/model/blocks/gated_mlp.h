// GatedMlp (MlpKind::kGated): down(activation(gate(x)) * up(x)).
#pragma once

#include "absl/strings/string_view.h"
#include "engine/model/blocks/block.h"
#include "engine/model/weights/memory_carver.h"
#include "engine/model/weights/weight_plan.h"

namespace quire {

struct GatedMlpWeights {
  LinearWeight gate_up;  // [2 * intermediate_size, hidden_size], gate first
  Tensor gate_up_bias;   // [2 * intermediate_size] or empty
  LinearWeight down;     // [hidden_size, intermediate_size]
  Tensor down_bias;      // [hidden_size] or empty
};

void PlanWeights(const ModelConfig& config, const LayerConfig& layer, GatedMlpWeights* weights,
                 ModulePlanner& planner);
// The same for modules whose names begin with `prefix` ("mlp."), of this width.
void PlanWeights(const ModelConfig& config, absl::string_view prefix, int64_t intermediate_size,
                 GatedMlpWeights* weights, ModulePlanner& planner);

class GatedMlp {
 public:
  explicit GatedMlp(const BlockContext& context) : context_(context) {}

  // Takes the activations' memory.
  void Carve(MemoryCarver* carver);

  // out = MLP(x), both [num_tokens, hidden_size]; x may be out, or Float8Rows.
  void Run(Stream& stream, const GatedMlpWeights& weights, const Tensor& x,
           const Tensor& out) const;

 private:
  BlockContext context_;
  Tensor gate_up_;  // [max_num_batched_tokens, 2 * intermediate_size] of the widest layer
  Tensor inner_;    // [max_num_batched_tokens, intermediate_size] of that layer
};

}  // namespace quire
