#include "engine/model/linear_groups.h"

namespace quire {

std::vector<LinearGroup> LinearGroups(const Weights& weights, int num_layers,
                                      int64_t max_num_tokens, int64_t max_logit_rows) {
  const LayerWeights& first = weights.layer(0);
  const auto group = [&](const LinearWeight LayerWeights::*weight, const Tensor& bias) {
    LinearGroup result = {
        .bias = bias, .out_dtype = (first.*weight).dtype, .max_num_rows = max_num_tokens};
    for (int i = 0; i < num_layers; ++i) result.weights.push_back(&(weights.layer(i).*weight));
    return result;
  };
  return {
      group(&LayerWeights::qkv, first.qkv_bias),
      group(&LayerWeights::o, first.o_bias),
      group(&LayerWeights::gate_up, first.gate_up_bias),
      group(&LayerWeights::down, first.down_bias),
      {.weights = {&weights.lm_head()}, .out_dtype = DType::kF32, .max_num_rows = max_logit_rows}};
}

}  // namespace quire
