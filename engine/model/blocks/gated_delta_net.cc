#include "engine/model/blocks/gated_delta_net.h"

#include <algorithm>

namespace quire {

void PlanWeights(const ModelConfig& config, const GatedDeltaShape& shape,
                 GatedDeltaWeights* weights, ModulePlanner& planner) {
  // Weights at random give every head something to keep.
  constexpr float kDummyTap = 0.5f, kDummyNorm = 1.0f;
  const int64_t hidden = config.hidden_size;
  const int64_t channels = shape.num_channels(), num_heads = shape.num_v_heads;
  // Qwen3-Next has one tensor, in it each key head with its value heads.
  const int64_t k_rows = shape.k_head_dim, v_heads = num_heads / shape.num_k_heads;
  const int64_t v_rows = v_heads * shape.v_head_dim;
  planner.Linear(&weights->qkvz, hidden,
                 {{"linear_attn.in_proj_qkv", channels}, {"linear_attn.in_proj_z", shape.v_size()}},
                 {.fused = "linear_attn.in_proj_qkvz",
                  .fused_turns = {k_rows, k_rows, v_rows, v_rows},
                  .normed = true});
  planner.Linear(&weights->ba, hidden,
                 {{"linear_attn.in_proj_b", num_heads}, {"linear_attn.in_proj_a", num_heads}},
                 {.fused = "linear_attn.in_proj_ba",
                  .fused_turns = {v_heads, v_heads},
                  .normed = true,
                  .role = MatrixRole::kGates});
  planner.Parameter(&weights->conv, "linear_attn.conv1d.weight", channels * shape.conv_width,
                    kDummyTap, {channels, 1, shape.conv_width});
  planner.Parameter(&weights->a_log, "linear_attn.A_log", num_heads);
  planner.Parameter(&weights->dt_bias, "linear_attn.dt_bias", num_heads);
  planner.Parameter(&weights->norm, "linear_attn.norm.weight", shape.v_head_dim, kDummyNorm);
  planner.Linear(&weights->out, shape.v_size(), {{"linear_attn.out_proj", hidden}}, {});
}

StateSpec GatedDeltaStateSpec(const GatedDeltaShape& shape, DType dtype, DType state_dtype) {
  return {.conv_bytes = (shape.conv_width - 1) * shape.num_channels() * DTypeBytes(dtype),
          .recurrent_bytes = shape.v_size() * shape.k_head_dim * DTypeBytes(state_dtype),
          .dtype = state_dtype};
}

void GatedDeltaNet::Carve(MemoryCarver* carver) {
  const int64_t num_tokens = context_.limits.max_num_batched_tokens;
  int64_t qkvz = 0, ba = 0, conv = 0, out = 0, room = 0;
  for (const LayerConfig& layer : context_.config->layers) {
    if (layer.attention != AttentionKind::kGatedDelta) continue;
    const GatedDeltaShape& shape = layer.delta;
    qkvz = std::max(qkvz, shape.num_channels() + shape.v_size());
    ba = std::max(ba, 2 * int64_t{shape.num_v_heads});
    conv = std::max(conv, shape.num_channels());
    out = std::max(out, shape.v_size());
    room = std::max(room, GatedDeltaRoomBytes(shape, num_tokens, context_.limits.device));
  }
  if (out == 0) return;
  qkvz_ = carver->TakeTensor(context_.dtype, {num_tokens, qkvz});
  ba_ = carver->TakeTensor(context_.dtype, {num_tokens, ba});
  conv_ = carver->TakeTensor(context_.dtype, {num_tokens, conv});
  out_ = carver->TakeTensor(context_.dtype, {num_tokens, out});
  room_ = carver->TakeTensor(DType::kU8, {room});
}

Tensor GatedDeltaNet::Run(Stream& stream, const GatedDeltaWeights& weights,
                          const GatedDeltaShape& shape, const Tensor& x, const Tensor& qkvz_x,
                          const StateView& state, const StateBatch& batch) const {
  const int64_t num_tokens = x.dim(0);
  const Tensor qkvz = Begin(qkvz_, {num_tokens, weights.qkvz.out_features});
  const Tensor ba = Begin(ba_, {num_tokens, weights.ba.out_features});
  const Tensor out = Begin(out_, {num_tokens, shape.v_size()});
  // The small one first: the large one's weights are on their way meanwhile.
  context_.ops->Linear(stream, {.x = x, .weight = &weights.ba, .out = ba});
  context_.ops->Linear(stream, {.x = qkvz_x, .weight = &weights.qkvz, .out = qkvz});
  context_.ops->GatedDelta(
      stream,
      {.shape = shape,
       .qkvz = qkvz,
       .ba = ba,
       .conv_weight = Begin(weights.conv, {shape.num_channels(), int64_t{shape.conv_width}}),
       .a_log = weights.a_log,
       .dt_bias = weights.dt_bias,
       .norm_weight = weights.norm,
       .norm_eps = context_.config->norm_eps,
       .state = state,
       .batch = batch,
       .conv_out = Begin(conv_, {num_tokens, shape.num_channels()}),
       .room = room_,
       .out = out});
  return out;
}

Tensor GatedDeltaNet::KeepRows(Stream& stream, const Tensor& found, const int32_t* indices,
                               int64_t num_rows) const {
  const Tensor kept = Begin(qkvz_, {num_rows, found.dim(1)});
  context_.ops->GatherRows(stream, {.in = found, .indices = indices, .out = kept});
  return kept;
}

void GatedDeltaNet::Project(Stream& stream, const GatedDeltaWeights& weights, const Tensor& found,
                            const Tensor& out) const {
  context_.ops->Linear(stream, {.x = found, .weight = &weights.out, .out = out});
}

}  // namespace quire
