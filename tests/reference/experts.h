// The specification of a mixture's experts: routing, each pair's products with its expert's matrix,
// the sum of a token's choices: plain loops in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/experts.h"
#include "tests/reference/linear.h"

namespace quire::reference {

struct Routed {
  std::vector<int32_t> experts;  // [num_tokens, top_k]
  std::vector<double> weights;   // [num_tokens, top_k]
  std::vector<int32_t> pairs;    // [num_tokens * top_k]
  std::vector<int32_t> offsets;  // [num_experts + 1]
};

// pairs and offsets of the experts that are there.
inline void SortPairs(int32_t num_experts, Routed* routed) {
  routed->pairs.clear();
  routed->offsets = {0};
  for (int32_t expert = 0; expert < num_experts; ++expert) {
    for (size_t pair = 0; pair < routed->experts.size(); ++pair) {
      if (routed->experts[pair] == expert) routed->pairs.push_back(static_cast<int32_t>(pair));
    }
    routed->offsets.push_back(static_cast<int32_t>(routed->pairs.size()));
  }
}

// The indices of the largest keys, in their order; of equal ones the lowest.
inline std::vector<int32_t> BestOf(const std::vector<double>& keys, int32_t count) {
  std::vector<int32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
  order.resize(count);
  return order;
}

// Of one token. A logit that is not a number has no score.
inline std::vector<double> ScoresOf(const RouterRule& rule, const std::vector<float>& logits) {
  std::vector<double> scores;
  double sum = 0;
  for (float logit : logits) {
    const double e = std::isnan(logit) ? 0 : std::exp(static_cast<double>(logit));
    scores.push_back(rule.score == RouterScore::kSoftmax ? e : e / (1 + e));
    sum += e;
  }
  for (double& score : scores) score /= rule.score == RouterScore::kSoftmax ? sum : 1;
  return scores;
}

// What a token's experts are chosen by: -infinity outside the best groups, and least for those
// whose logit is not a number.
inline std::vector<double> KeysOf(const RouterRule& rule, const std::vector<float>& logits,
                                  const std::vector<float>& correction) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> keys = ScoresOf(rule, logits);
  for (size_t e = 0; e < keys.size(); ++e) {
    if (!correction.empty()) keys[e] += correction[e];
    if (std::isnan(logits[e])) keys[e] = -1e30;
  }
  const int32_t size = rule.num_experts / rule.num_groups;
  std::vector<double> group_keys;
  for (int32_t g = 0; g < rule.num_groups; ++g) {
    std::vector<double> group(keys.begin() + g * size, keys.begin() + (g + 1) * size);
    std::sort(group.rbegin(), group.rend());
    const bool two = rule.group_score == GroupScore::kTwoBestSum && size > 1;
    group_keys.push_back(two ? group[0] + group[1] : group[0]);
  }
  std::vector<bool> is_kept(rule.num_groups);
  for (int32_t group : BestOf(group_keys, rule.top_groups)) is_kept[group] = true;
  for (size_t e = 0; e < keys.size(); ++e) {
    if (!is_kept[e / size]) keys[e] = -kInfinity;
  }
  return keys;
}

// The weights of a token's choices.
inline std::vector<double> WeightsOf(const RouterRule& rule, const std::vector<float>& logits,
                                     const std::vector<int32_t>& experts,
                                     const std::vector<float>& expert_scales) {
  const bool has_nan = std::any_of(logits.begin(), logits.end(), [](float x) { return x != x; });
  const std::vector<double> scores = ScoresOf(rule, logits);
  double sum = rule.score == RouterScore::kSigmoid ? 1e-20 : 0;
  for (int32_t expert : experts) sum += scores[expert];
  std::vector<double> weights;
  for (int32_t expert : experts) {
    const double weight = scores[expert] / (rule.renormalise ? sum : 1) * rule.scale *
                          (expert_scales.empty() ? 1 : expert_scales[expert]);
    weights.push_back(has_nan ? NAN : weight);
  }
  return weights;
}

// Experts' matrices, [out_features, in_features] each.
using Matrices = std::vector<std::vector<double>>;

// Row i: x[row_of(i)] times the matrix of the expert of pairs[i], plus the expert's bias (of
// [num_experts, out_features], or empty).
template <typename RowOf>
LinearResult ExpertsRows(const Routed& routed, const std::vector<float>& x, const RowOf& row_of,
                         const Matrices& matrices, const std::vector<float>& bias,
                         int64_t out_features, int64_t in_features) {
  LinearResult result;
  for (size_t i = 0; i < routed.pairs.size(); ++i) {
    const int32_t expert = routed.experts[routed.pairs[i]];
    for (int64_t n = 0; n < out_features; ++n) {
      double sum = bias.empty() ? 0 : bias[expert * out_features + n];
      double magnitude = std::abs(sum);
      for (int64_t k = 0; k < in_features; ++k) {
        const double product =
            x[row_of(i) * in_features + k] * matrices[expert][n * in_features + k];
        sum += product;
        magnitude += std::abs(product);
      }
      result.out.push_back(sum);
      result.magnitude.push_back(magnitude);
    }
  }
  return result;
}

// Sums each token's rows, which are in pairs' order, in the order of its choices. With `absolute`,
// sums their absolute values.
inline std::vector<double> SumOfChoices(const Routed& routed, const std::vector<double>& rows,
                                        int64_t top_k, bool absolute = false) {
  const auto size = static_cast<int64_t>(rows.size() / routed.pairs.size());
  std::vector<double> out(rows.size() / top_k);
  for (size_t i = 0; i < routed.pairs.size(); ++i) {
    const int32_t pair = routed.pairs[i];
    for (int64_t c = 0; c < size; ++c) {
      const double part = routed.weights[pair] * rows[i * size + c];
      out[pair / top_k * size + c] += absolute ? std::abs(part) : part;
    }
  }
  return out;
}

}  // namespace quire::reference
