#include "engine/model/linear_groups.h"

#include <algorithm>

#include "kernels/float8_rows.h"

namespace quire {

namespace {

bool HasFloat8X(const LayerLinear& linear) {
  return linear.normed && NormedDType(*linear.weight) == DType::kF8E4M3;
}

bool IsAlike(const LinearGroup& group, const LayerLinear& linear) {
  const LinearWeight& first = *group.weights[0];
  return group.gated == linear.gated && group.float8_x == HasFloat8X(linear) &&
         first.out_features == linear.weight->out_features &&
         first.in_features == linear.weight->in_features && first.dtype == linear.weight->dtype &&
         group.out_dtype == linear.out_dtype && first.format == linear.weight->format &&
         first.activations == linear.weight->activations &&
         group.bias.empty() == linear.bias.empty();
}

}  // namespace

std::vector<LinearGroup> LinearGroups(const Weights& weights, int64_t max_num_batched_tokens,
                                      int64_t max_logit_rows) {
  std::vector<LinearGroup> groups;
  for (const LayerLinear& linear : weights.linears()) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const LinearGroup& group) {
      return IsAlike(group, linear);
    });
    if (group != groups.end()) {
      group->weights.push_back(linear.weight);
    } else {
      groups.push_back({.weights = {linear.weight},
                        .bias = linear.bias,
                        .float8_x = HasFloat8X(linear),
                        .out_dtype = linear.out_dtype,
                        .gated = linear.gated,
                        .max_num_rows = max_num_batched_tokens});
    }
  }
  groups.push_back(
      {.weights = {&weights.lm_head()}, .out_dtype = DType::kF32, .max_num_rows = max_logit_rows});
  return groups;
}

}  // namespace quire
