// The operations of a mixture of experts: Route chooses experts for each token and sorts the pairs
// of a token and one of its experts by expert; ExpertsGatedLinear and ExpertsLinear multiply each
// pair with its expert's matrix. All counts stay on the device. Plain values; any thread.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/linear_weight.h"
#include "kernels/op_args.h"

namespace quire {

// What a router's logits become, over all experts.
enum class RouterScore : uint8_t { kSoftmax, kSigmoid };

// How groups of neighbouring experts are scored; only the best groups are kept.
enum class GroupScore : uint8_t {
  kBest,        // a group's best score
  kTwoBestSum,  // the sum of its two best
};

struct RouterRule {
  static constexpr int32_t kMaxExperts = 1024;
  static constexpr int32_t kMaxTopK = 32;
  static constexpr int32_t kMaxGroups = 32;

  int32_t num_experts = 0;
  int32_t top_k = 0;  // experts of a token
  RouterScore score = RouterScore::kSoftmax;
  bool renormalise = false;  // a token's weights are divided by their sum
  float scale = 1;           // multiplies the weights in the end
  int32_t num_groups = 1;    // divides num_experts
  int32_t top_groups = 1;    // that experts are chosen from
  GroupScore group_score = GroupScore::kBest;

  bool operator==(const RouterRule&) const = default;
};

// Where a step's tokens go. A pair is a token and one of its choices: token * top_k + choice.
struct Routing {
  Tensor experts;  // [num_tokens, top_k] int32: a token's experts, best first
  Tensor weights;  // [num_tokens, top_k] float32
  Tensor pairs;    // [num_tokens * top_k] int32: by expert, those of an expert in their own order
  Tensor offsets;  // [num_experts + 1] int32: where in `pairs` those of each expert begin

  int64_t num_tokens() const { return experts.dim(0); }
  int64_t top_k() const { return experts.dim(1); }
  int64_t num_pairs() const { return pairs.dim(0); }
  int64_t num_experts() const { return offsets.dim(0) - 1; }
};

// Experts are chosen by score + correction: the best first, and if two are equal, the lower index.
// Their weights are the scores without the correction.
struct RouteArgs {
  Tensor logits;  // [num_tokens, num_experts] float32; perhaps columns of wider rows
  RouterRule rule;
  Tensor correction = {};     // [num_experts] float32, or empty
  Tensor expert_scales = {};  // [num_experts] float32, or empty: multiply the experts' weights
  // [num_experts] int64, or empty. The number of tokens that have chosen an expert is added to its
  // count. Tokens that only pad a step, whose slot (StoreHeadsArgs) is negative, do not count.
  Tensor counts = {};
  const int64_t* slots = nullptr;  // [num_tokens], or null: no token pads
  Routing out;
};

// out[i] = activation(gate) * up, with [gate, up] = x[token of pairs[i]] * weight^T + bias of the
// pair's expert, rounded to the weight's dtype.
struct ExpertsGatedLinearArgs {
  Tensor x;                    // [num_tokens, in_features] of the weight's dtype
  const LinearWeight* weight;  // num_experts of [2 * intermediate_size, in_features], gate first
  Tensor bias = {};            // [num_experts, 2 * intermediate_size] or empty
  Activation activation = Activation::kSilu;
  Routing routing;
  // Room; what it holds afterwards is open. Of sorted rows of x, which GPUs need whose weights are
  // quantized.
  Tensor gate_up;        // [num_pairs, 2 * intermediate_size]
  Tensor sorted_x = {};  // [num_pairs, in_features] or empty
  Tensor out;            // [num_pairs, intermediate_size]

  // Where gate_up holds what its name says.
  GatedActivationArgs Activate() const { return GatedActivationArgs::Of(gate_up, activation, out); }
};

// out[token] = sigmoid(add_gate) * add + sum over the token's choices, in their order, of weight *
// row, where row is x[i] * weight^T + bias of the pair's expert for pairs[i] = token * top_k +
// choice, rounded to the weight's dtype. The sum is in float32. Comes after ExpertsGatedLinear with
// this routing.
struct ExpertsLinearArgs {
  Tensor x;                    // [num_pairs, in_features] of the weight's dtype, in pairs' order
  const LinearWeight* weight;  // num_experts of [out_features, in_features]
  Tensor bias = {};            // [num_experts, out_features] or empty
  Routing routing;
  Tensor rows;           // [num_pairs, out_features]: room; what it holds afterwards is open
  Tensor add = {};       // [num_tokens, out_features] or empty; may be out
  Tensor add_gate = {};  // [num_tokens, 1] float32, perhaps a column of wider rows; empty: no gate
  Tensor out;            // [num_tokens, out_features]
};

}  // namespace quire
