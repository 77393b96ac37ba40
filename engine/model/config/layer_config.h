// LayerConfig: the description of one layer of a model. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/experts.h"
#include "kernels/gated_delta.h"

namespace quire {

// The kinds of a layer's attention and of its MLP; the code of each kind is a file in blocks/.
enum class AttentionKind : uint8_t { kGqa, kGatedDelta };
enum class MlpKind : uint8_t {
  kGated,
  kRouted,
  kGatedAndRouted,  // both, on the same hidden state, each with its own norms
};

// For AttentionKind::kGqa.
struct GqaConfig {
  int32_t num_q_heads = 0;  // a multiple of num_kv_heads
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int64_t sliding_window = 0;  // 0 = full attention
  int32_t rope = 0;  // index in ModelConfig::ropes; -1: no positions except the tokens' order
  // An earlier layer with the same heads and the same window. This layer stores no keys and values,
  // and reads the earlier layer's.
  std::optional<int32_t> kv_sharing_target = {};
  // Each query head has a gate of the same length behind it, whose sigmoid multiplies the head's
  // result.
  bool output_gate = false;
  // There is no v_proj: values are k_proj's output, before the norm and the rotation of keys.
  bool value_is_key = false;
};

// Experts: each token has some of them, and there may be one that all tokens have.
struct RoutedMlpConfig {
  RouterRule router;
  bool router_bias = false;              // added to the logits
  bool router_correction = false;        // RouteArgs::correction
  bool expert_scales = false;            // RouteArgs::expert_scales
  bool expert_bias = false;              // of both projections of each expert
  int64_t intermediate_size = 0;         // of an expert
  int64_t shared_intermediate_size = 0;  // of the expert that all tokens have; 0: there is none
  bool shared_gate = false;  // whose result is multiplied by the sigmoid of a projection
};

struct LayerConfig {
  AttentionKind attention = AttentionKind::kGqa;
  MlpKind mlp = MlpKind::kGated;
  GqaConfig gqa = {};             // of kGqa
  GatedDeltaShape delta = {};     // of kGatedDelta
  int64_t intermediate_size = 0;  // of kGated and kGatedAndRouted
  RoutedMlpConfig routed = {};    // of kRouted and kGatedAndRouted; else without experts
};

}  // namespace quire
