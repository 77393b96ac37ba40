// GatedDeltaNet (AttentionKind::kGatedDelta): a mixer that keeps a state of each sequence in place
// of keys and values. The state has the same size for long and short sequences.
#pragma once

#include "engine/model/blocks/block.h"
#include "engine/model/weights/memory_carver.h"
#include "engine/model/weights/weight_plan.h"
#include "kernels/gated_delta.h"
#include "kvcache/state_arena.h"

namespace quire {

struct GatedDeltaWeights {
  // [2 * num_k_heads * k_head_dim + 2 * num_v_heads * v_head_dim, hidden_size]: queries, keys,
  // values, z.
  LinearWeight qkvz;
  LinearWeight ba;   // [2 * num_v_heads, hidden_size]: how much is written, how much is kept
  Tensor conv;       // [num_channels * conv_width]
  Tensor a_log;      // [num_v_heads]
  Tensor dt_bias;    // [num_v_heads]
  Tensor norm;       // [v_head_dim]
  LinearWeight out;  // [hidden_size, num_v_heads * v_head_dim]
};

void PlanWeights(const ModelConfig& config, const GatedDeltaShape& shape,
                 GatedDeltaWeights* weights, ModulePlanner& planner);

// The state that such a layer keeps of each sequence, with activations and recurrent states of
// these dtypes.
StateSpec GatedDeltaStateSpec(const GatedDeltaShape& shape, DType dtype, DType state_dtype);

class GatedDeltaNet {
 public:
  explicit GatedDeltaNet(const BlockContext& context) : context_(context) {}

  // Takes the activations' memory.
  void Carve(MemoryCarver* carver);

  // Computes the tokens' results, [num_tokens, num_v_heads * v_head_dim], valid until the next
  // call, and advances the sequences' states by these tokens. `x` is normed, [num_tokens,
  // hidden_size] in the activations' dtype; `qkvz_x` is the same in the form that weights.qkvz
  // reads.
  Tensor Run(Stream& stream, const GatedDeltaWeights& weights, const GatedDeltaShape& shape,
             const Tensor& x, const Tensor& qkvz_x, const StateView& state,
             const StateBatch& batch) const;
  // These rows of what Run has returned.
  Tensor KeepRows(Stream& stream, const Tensor& found, const int32_t* indices,
                  int64_t num_rows) const;
  // out = out_proj(found), [num_rows, hidden_size].
  void Project(Stream& stream, const GatedDeltaWeights& weights, const Tensor& found,
               const Tensor& out) const;

 private:
  BlockContext context_;
  // Each has room for max_num_batched_tokens rows of the layer with the longest such row.
  Tensor qkvz_;
  Tensor ba_;
  Tensor conv_;
  Tensor out_;
  Tensor room_;  // of GatedDeltaArgs
};

}  // namespace quire
