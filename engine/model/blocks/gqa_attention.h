// GqaAttention (AttentionKind::kGqa): attention with rotary positions whose query heads share KV
// heads in equal groups, over all tokens or a sliding window.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/model/blocks/block.h"
#include "engine/model/weights/memory_carver.h"
#include "engine/model/weights/weight_plan.h"
#include "kernels/attention.h"
#include "kvcache/kv_layout.h"

namespace quire {

struct GqaWeights {
  // [(num_q_heads + 2 * num_kv_heads) * head_dim, hidden_size]. There are no rows of v if values
  // are keys, and no rows of k and v in a layer that reads another layer's cache. With gates, each
  // query head's rows are followed by as many rows of its gate.
  LinearWeight qkv;
  Tensor qkv_bias;  // as many, or empty
  Tensor q_norm;    // [head_dim], or of all heads [num_q_heads * head_dim], or empty
  Tensor k_norm;    // the same for keys
  Tensor sinks;     // [num_q_heads] float32, or empty
  Tensor k_scales;  // [num_kv_heads] of an 8-bit cache
  Tensor v_scales;  // [num_kv_heads]
  LinearWeight o;   // [hidden_size, num_q_heads * head_dim]
  Tensor o_bias;    // [hidden_size] or empty
};

void PlanWeights(const ModelConfig& config, const GqaConfig& layer, GqaWeights* weights,
                 ModulePlanner& planner);

// The shape of what such a layer keeps of each token, in this dtype: no heads if it reads another
// layer's cache.
KvSpec GqaKvSpec(const GqaConfig& layer, DType kv_dtype);

// The layer's cache with the scales that multiply its elements.
KvCacheView Scaled(KvCacheView kv_cache, const GqaWeights& weights);

class GqaAttention {
 public:
  explicit GqaAttention(const BlockContext& context) : context_(context) {}

  // Takes the memory of activations and rope tables.
  void Carve(MemoryCarver* carver);
  absl::Status UploadTables(Device& device, Stream& stream);

  // The positions of a step's tokens, and the slots in which the layer keeps them.
  struct Places {
    const int64_t* positions;     // [num_tokens]
    const int64_t* slot_mapping;  // [num_tokens]
    KvCacheView kv_cache;
  };

  // Computes queries, keys and values of x ([num_tokens, hidden_size], normed). The cache gets the
  // rotated keys and the values, unless the layer reads another layer's cache. Returns the rotated
  // queries, [num_tokens, num_q_heads, head_dim], valid until the next call.
  Tensor StoreKeysAndValues(Stream& stream, const GqaWeights& weights, const GqaConfig& layer,
                            const Tensor& x, const Places& places) const;
  // Attention's results for the queries, [num_tokens, num_q_heads * head_dim], valid until the next
  // call. They are multiplied by the gates, if the layer has gates.
  Tensor Attend(Stream& stream, const AttentionPlan& plan, const GqaWeights& weights,
                const GqaConfig& layer, const Tensor& q, const KvCacheView& kv_cache) const;
  // These rows of Attend's result, in the place where the queries were.
  Tensor KeepRows(Stream& stream, const Tensor& attended, const int32_t* indices,
                  int64_t num_rows) const;
  // out = o(attended), [num_rows, hidden_size].
  void Project(Stream& stream, const GqaWeights& weights, const Tensor& attended,
               const Tensor& out) const;

 private:
  struct QkvHeads {
    HeadsArgs q, k, v;
  };
  void NormRows(Stream& stream, const GqaWeights& weights, const GqaConfig& layer,
                const Tensor& qkv) const;
  QkvHeads HeadsIn(const GqaWeights& weights, const GqaConfig& layer) const;

  BlockContext context_;
  // One for each of config->ropes, in float32.
  std::vector<Tensor> cos_sin_;       // [max_model_len, rotary_dim]
  std::vector<Tensor> query_scales_;  // [max_model_len], or empty
  // Each has room for max_num_batched_tokens rows of the layer with the longest such row; a layer
  // has its own rows.
  Tensor qkv_;
  Tensor q_;
  Tensor out_;
};

}  // namespace quire
