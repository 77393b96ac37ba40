#include "engine/model/blocks/gqa_attention.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "engine/model/config/rope_table.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

void PlanScales(const GqaConfig& layer, GqaWeights* weights, ModulePlanner& planner) {
  // compressed-tensors, ModelOpt, the same for fused projections, AutoFP8.
  planner.Scales(
      &weights->k_scales, layer.num_kv_heads,
      {"self_attn.k_scale", "self_attn.attn.k_scale", "self_attn.k_proj.k_scale",
       "self_attn.k_proj.output_scale", "self_attn.qkv_proj.k_scale", "self_attn.kv_scale"});
  planner.Scales(
      &weights->v_scales, layer.num_kv_heads,
      {"self_attn.v_scale", "self_attn.attn.v_scale", "self_attn.v_proj.v_scale",
       "self_attn.v_proj.output_scale", "self_attn.qkv_proj.v_scale", "self_attn.kv_scale"});
}

// A layer that reads another's keys and values may have been trained before it did.
void PlanSpares(ModulePlanner& planner) {
  for (const char* name :
       {"self_attn.k_proj", "self_attn.v_proj", "self_attn.k_norm", "self_attn.v_norm"}) {
    planner.Spare(name);
  }
}

// Rows of a projection for heads of a layer's queries, and of its keys and values.
int64_t NumQueryRows(const GqaConfig& layer) {
  return (layer.output_gate ? 2 : 1) * int64_t{layer.num_q_heads} * layer.head_dim;
}
int64_t NumKeyRows(const GqaConfig& layer) {
  return layer.kv_sharing_target ? 0 : int64_t{layer.num_kv_heads} * layer.head_dim;
}
int64_t NumValueRows(const GqaConfig& layer) { return layer.value_is_key ? 0 : NumKeyRows(layer); }

// Uploads the values that `fill` writes.
absl::Status Upload(Device& device, Stream& stream, const Tensor& table,
                    absl::FunctionRef<void(float*)> fill) {
  ASSIGN_OR_RETURN(const DeviceBuffer staging, device.AllocatePinned(table.num_bytes()));
  fill(staging.as<float>());
  stream.CopyToDevice(table.data(), staging.data(), table.num_bytes());
  return stream.Synchronize();  // before the staging memory goes
}

}  // namespace

void PlanWeights(const ModelConfig& config, const GqaConfig& layer, GqaWeights* weights,
                 ModulePlanner& planner) {
  const int64_t hidden = config.hidden_size;
  const bool has_kv = !layer.kv_sharing_target;
  const bool has_v = has_kv && !layer.value_is_key;
  std::vector<ModulePlanner::Module> modules = {{"self_attn.q_proj", NumQueryRows(layer)}};
  if (has_kv) modules.push_back({"self_attn.k_proj", NumKeyRows(layer)});
  if (has_v) modules.push_back({"self_attn.v_proj", NumValueRows(layer)});
  planner.Linear(&weights->qkv, hidden, modules,
                 {.bias = config.qkv_bias ? &weights->qkv_bias : nullptr,
                  .fused = has_v ? "self_attn.qkv_proj" : "",
                  .normed = config.block_order != BlockOrder::kPostNorm});
  if (config.qk_norm != HeadNorm::kNone) {
    const bool is_row = config.qk_norm == HeadNorm::kRow;
    const int64_t q_size = is_row ? NumQueryRows(layer) : layer.head_dim;
    const int64_t k_size = is_row ? NumKeyRows(layer) : layer.head_dim;
    planner.Norm(&weights->q_norm, "self_attn.q_norm", q_size);
    if (has_kv) planner.Norm(&weights->k_norm, "self_attn.k_norm", k_size);
  }
  if (!has_kv) PlanSpares(planner);
  if (has_kv) PlanScales(layer, weights, planner);
  if (config.attention_sinks) {
    planner.Parameter(&weights->sinks, "self_attn.sinks", layer.num_q_heads);
  }
  planner.Linear(&weights->o, int64_t{layer.num_q_heads} * layer.head_dim,
                 {{"self_attn.o_proj", hidden}},
                 {.bias = config.o_bias ? &weights->o_bias : nullptr});
}

KvSpec GqaKvSpec(const GqaConfig& layer, DType kv_dtype) {
  return {.sliding_window = layer.sliding_window,
          .num_kv_heads = layer.kv_sharing_target ? 0 : layer.num_kv_heads,
          .k_head_dim = layer.head_dim,
          .v_head_dim = layer.head_dim,
          .dtype = kv_dtype};
}

KvCacheView Scaled(KvCacheView kv_cache, const GqaWeights& weights) {
  if (IsFloat8(kv_cache.dtype)) {
    kv_cache.k.scales = weights.k_scales.as<float>();
    kv_cache.v.scales = weights.v_scales.as<float>();
  }
  return kv_cache;
}

void GqaAttention::Carve(MemoryCarver* carver) {
  const int64_t max_num_batched_tokens = context_.limits.max_num_batched_tokens;
  const int64_t max_model_len = context_.limits.max_model_len;
  for (const RopeConfig& rope : context_.config->ropes) {
    cos_sin_.push_back(carver->TakeTensor(DType::kF32, {max_model_len, rope.rotary_dim}));
    const bool scales = rope.query_scale_beta > 0;
    query_scales_.push_back(scales ? carver->TakeTensor(DType::kF32, {max_model_len}) : Tensor());
  }
  int64_t q_size = 0, qkv_size = 0;
  for (const LayerConfig& layer : context_.config->layers) {
    const GqaConfig& gqa = layer.gqa;
    q_size = std::max(q_size, int64_t{gqa.num_q_heads} * gqa.head_dim);
    qkv_size = std::max(qkv_size, NumQueryRows(gqa) + NumKeyRows(gqa) + NumValueRows(gqa));
  }
  qkv_ = carver->TakeTensor(context_.dtype, {max_num_batched_tokens, qkv_size});
  q_ = carver->TakeTensor(context_.dtype, {max_num_batched_tokens, q_size});
  out_ = carver->TakeTensor(context_.dtype, {max_num_batched_tokens, q_size});
}

absl::Status GqaAttention::UploadTables(Device& device, Stream& stream) {
  const int64_t max_model_len = context_.limits.max_model_len;
  for (size_t i = 0; i < cos_sin_.size(); ++i) {
    const RopeConfig& rope = context_.config->ropes[i];
    RETURN_IF_ERROR(Upload(device, stream, cos_sin_[i], [&](float* table) {
      FillRopeTable(ComputeRopeFrequencies(rope, max_model_len), max_model_len, table);
    }));
    if (query_scales_[i].empty()) continue;
    RETURN_IF_ERROR(Upload(device, stream, query_scales_[i],
                           [&](float* scales) { FillQueryScales(rope, max_model_len, scales); }));
  }
  return absl::OkStatus();
}

Tensor GqaAttention::StoreKeysAndValues(Stream& stream, const GqaWeights& weights,
                                        const GqaConfig& layer, const Tensor& x,
                                        const Places& places) const {
  const Tensor qkv = Begin(qkv_, {x.dim(0), weights.qkv.out_features});
  const Tensor q = Begin(q_, {x.dim(0), layer.num_q_heads, layer.head_dim});
  const size_t rope_index = std::max(layer.rope, 0);
  const RopeConfig& rope = context_.config->ropes[rope_index];
  context_.ops->Linear(stream,
                       {.x = x, .weight = &weights.qkv, .bias = weights.qkv_bias, .out = qkv});
  if (context_.config->qk_norm == HeadNorm::kRow) NormRows(stream, weights, layer, qkv);
  const QkvHeads heads = HeadsIn(weights, layer);
  const Tensor query_scales = layer.rope >= 0 ? query_scales_[rope_index] : Tensor();
  context_.ops->StoreHeads(stream, {.x = qkv,
                                    .q = heads.q,
                                    .k = heads.k,
                                    .v = heads.v,
                                    .norm_eps = context_.config->norm_eps,
                                    .cos_sin = cos_sin_[rope_index].as<float>(),
                                    .num_pairs = rope.rotary_dim / 2,
                                    .pair_distance = rope.pair_distance,
                                    .query_scales = query_scales.as<float>(),
                                    .positions = places.positions,
                                    .slot_mapping = places.slot_mapping,
                                    .kv_cache = places.kv_cache,
                                    .q_out = q});
  return q;
}

// Norms all queries of a token as one vector, and all its keys.
void GqaAttention::NormRows(Stream& stream, const GqaWeights& weights, const GqaConfig& layer,
                            const Tensor& qkv) const {
  const int64_t q_size = NumQueryRows(layer), k_size = NumKeyRows(layer);
  const auto norm = [&](const Tensor& rows, const Tensor& weight) {
    context_.ops->RmsNorm(
        stream, {.x = rows, .weight = weight, .eps = context_.config->norm_eps, .out = rows});
  };
  norm(Columns(qkv, 0, q_size), weights.q_norm);
  if (k_size > 0) norm(Columns(qkv, q_size, k_size), weights.k_norm);
}

// Where a layer's heads are in the rows of qkv_; none of k and v if it reads another's.
GqaAttention::QkvHeads GqaAttention::HeadsIn(const GqaWeights& weights,
                                             const GqaConfig& layer) const {
  const int32_t num_kv_heads = layer.kv_sharing_target ? 0 : layer.num_kv_heads;
  const int32_t q_spread = layer.output_gate ? 2 : 1;  // a query, then its gate
  const int32_t num_before_k = q_spread * layer.num_q_heads;
  const bool has_norm = context_.config->qk_norm == HeadNorm::kHead;
  const auto heads = [&](int32_t num_heads, int64_t num_before, const Tensor& norm, bool rotate) {
    return HeadsArgs{
        .num_heads = num_heads,
        .first = num_before * layer.head_dim,
        .stride = (num_before == 0 ? q_spread : 1) * layer.head_dim,
        .norm = has_norm && !norm.empty() ? HeadNormKind::kWeight : HeadNormKind::kNone,
        .norm_weight = has_norm ? norm : Tensor(),
        .rotate = rotate};
  };
  const bool has_rope = layer.rope >= 0;
  const int32_t num_before_v = num_before_k + (layer.value_is_key ? 0 : num_kv_heads);
  QkvHeads all = {.q = heads(layer.num_q_heads, 0, weights.q_norm, has_rope),
                  .k = heads(num_kv_heads, num_before_k, weights.k_norm, has_rope),
                  .v = heads(num_kv_heads, num_before_v, {}, false)};
  if (context_.config->v_norm) all.v.norm = HeadNormKind::kPlain;
  return all;
}

Tensor GqaAttention::Attend(Stream& stream, const AttentionPlan& plan, const GqaWeights& weights,
                            const GqaConfig& layer, const Tensor& q,
                            const KvCacheView& kv_cache) const {
  const Tensor out = Begin(out_, {q.dim(0), q.dim(1), kv_cache.v.head_dim});
  plan.Run(stream, {.q = q,
                    .kv_cache = kv_cache,
                    .out = out,
                    .sinks = weights.sinks.empty() ? nullptr : weights.sinks.as<float>()});
  if (layer.output_gate) {
    context_.ops->Gate(stream, {.x = out,
                                .gate = Begin(qkv_, {q.dim(0), weights.qkv.out_features}),
                                .gate_first = layer.head_dim,
                                .gate_stride = 2 * int64_t{layer.head_dim}});
  }
  return Flat(out);
}

Tensor GqaAttention::KeepRows(Stream& stream, const Tensor& attended, const int32_t* indices,
                              int64_t num_rows) const {
  const Tensor kept = Begin(q_, {num_rows, attended.dim(1)});
  context_.ops->GatherRows(stream, {.in = attended, .indices = indices, .out = kept});
  return kept;
}

void GqaAttention::Project(Stream& stream, const GqaWeights& weights, const Tensor& attended,
                           const Tensor& out) const {
  context_.ops->Linear(stream,
                       {.x = attended, .weight = &weights.o, .bias = weights.o_bias, .out = out});
}

}  // namespace quire
