// One struct of arguments per operation of kernels/ops.h, shapes in comments. All pointers and
// tensors are device memory that must stay valid until the operation has run. Activations have the
// model's dtype, one of DeviceInfo's activation_dtypes; arithmetic is in float32. Filled with
// designated initializers.
#pragma once

#include <cstdint>

#include "kernels/base/columns.h"
#include "kernels/base/tensor.h"
#include "kernels/base/types.h"
#include "kernels/kv_cache_view.h"
#include "kernels/linear_weight.h"

namespace quire {

struct EmbeddingArgs {
  const int32_t* input_ids;       // [num_tokens]; ~row (negative) means row_last_token[row]
  const int32_t* row_last_token;  // [max_num_seqs] last sampled id of each row
  const LinearWeight* table;      // [vocab_size, hidden_size]
  Tensor out;                     // [num_tokens, hidden_size]
};

// out = x / sqrt(mean(x^2) + eps) * weight, or the same for x - mean(x). With `residual`: first
// residual += x, then the norm of the residual.
struct RmsNormArgs {
  Tensor x;              // [num_tokens, hidden_size]
  Tensor residual = {};  // [num_tokens, hidden_size] or empty; updated in place
  Tensor weight;         // [hidden_size]
  float eps;
  bool centred = false;  // the norm of x - mean(x): LayerNorm without a bias
  // The norm is written to one of these or to both.
  Tensor out = {};         // [num_tokens, hidden_size] of x's dtype; may be x
  Tensor float8_out = {};  // Float8Rows of what `out` gets, on a GPU from 16 bits
};

// out = x * weight^T + bias.
struct LinearArgs {
  Tensor x;  // [num_tokens, in_features]; the weight's dtype, or Float8Rows (NormedDType)
  const LinearWeight* weight;
  Tensor bias = {};  // [out_features] or empty
  Tensor out;        // [num_tokens, out_features]; the weight's dtype or float32
};

// How a head's elements are normed before they are rotated.
enum class HeadNormKind : uint8_t {
  kNone,
  kPlain,   // head / sqrt(mean(head^2) + eps)
  kWeight,  // the same, times a weight
};

// The heads of one kind in a row of `x`: their places, and how they are changed on their way.
struct HeadsArgs {
  int32_t num_heads = 0;
  int64_t first = 0;   // elements from a row's beginning to its first head
  int64_t stride = 0;  // elements from one head to the next; at least head_dim
  HeadNormKind norm = HeadNormKind::kNone;
  Tensor norm_weight = {};  // [head_dim], with HeadNormKind::kWeight only
  bool rotate = false;
};

// Takes queries, keys and values out of the rows of x, normalises heads, and rotates num_pairs
// pairs of elements in the heads that are rotated: (i, i + pair_distance), or with a distance of 1
// neighbours, (2 * i, 2 * i + 1). Queries go to `q_out`, multiplied by the scale of their position;
// keys and values go to their slots. A token with slot -1 writes nothing to the cache. Values may
// be made from the same elements as keys. Without heads of keys and values nothing is written to
// the cache.
struct StoreHeadsArgs {
  Tensor x;     // [num_tokens, row_size]
  HeadsArgs q;  // heads of kv_cache.k.head_dim elements, as those of k and v
  HeadsArgs k;  // kv_cache.num_kv_heads, or none
  HeadsArgs v;  // as many as k
  float norm_eps = 0;
  const float* cos_sin = nullptr;  // [max_positions, 2 * num_pairs], each row cosines, then sines;
                                   // may be null where nothing is rotated
  int32_t num_pairs = 0;
  int32_t pair_distance = 0;            // 1, or num_pairs or more
  const float* query_scales = nullptr;  // [max_positions]; null: all are 1
  const int64_t* positions;             // [num_tokens]
  const int64_t* slot_mapping;          // [num_tokens]
  KvCacheView kv_cache;                 // keys and values laid out alike
  Tensor q_out;                         // [num_tokens, q.num_heads, head_dim]
};

// x = x * sigmoid(gate), in place.
struct GateArgs {
  Tensor x;                 // [num_tokens, num_heads, head_dim]
  Tensor gate;              // [num_tokens, row_size], of x's dtype; may not overlap x
  int64_t gate_first = 0;   // elements from a row's beginning to the first head's gates
  int64_t gate_stride = 0;  // elements from one head's gates to the next; at least head_dim
};

// A gated MLP's activation.
enum class Activation : uint8_t {
  kSilu,          // x * sigmoid(x)
  kGeluTanh,      // GELU approximated by tanh
  kClampedSwish,  // gpt-oss's: with x at most 7, x * sigmoid(1.702 x); it multiplies up + 1, up
                  // between -7 and 7
};

// out = activation(gate) * up.
struct GatedActivationArgs {
  Tensor gate;  // [num_tokens, intermediate_size]
  Tensor up;    // the same
  Activation activation = Activation::kSilu;
  Tensor out;  // the same; may be gate or up

  // gate_up: [num_tokens, 2 * intermediate_size], gates first.
  static GatedActivationArgs Of(const Tensor& gate_up, Activation activation, const Tensor& out) {
    const int64_t size = gate_up.dim(1) / 2;
    return {.gate = Columns(gate_up, 0, size),
            .up = Columns(gate_up, size, size),
            .activation = activation,
            .out = out};
  }
};

// x = (x + y) * factor, in place.
struct AddArgs {
  Tensor x;            // [num_rows, row_size]
  Tensor y;            // the same; apart from x
  Tensor factor = {};  // [1] float32; empty: 1
};

// x = x * factor, in place.
struct ScaleArgs {
  Tensor x;  // [num_rows, row_size]
  float factor;
};

// x = cap * tanh(x / cap), in place.
struct SoftCapArgs {
  Tensor x;  // [num_rows, row_size]
  float cap;
};

// Linear, then GatedActivation: [gate, up] = x * weight^T + bias, rounded to the weight's dtype;
// out = activation(gate) * up.
struct GatedLinearArgs {
  Tensor x;                    // as Linear's
  const LinearWeight* weight;  // [2 * intermediate_size, in_features], gate first
  Tensor bias = {};            // [2 * intermediate_size] or empty
  Activation activation = Activation::kSilu;
  Tensor gate_up;  // [num_tokens, 2 * intermediate_size]: room; what it holds afterwards is open
  Tensor out;      // [num_tokens, intermediate_size]

  LinearArgs Linear() const { return {.x = x, .weight = weight, .bias = bias, .out = gate_up}; }
  GatedActivationArgs Activate() const { return GatedActivationArgs::Of(gate_up, activation, out); }
};

struct GatherRowsArgs {
  Tensor in;               // [num_tokens, hidden_size]
  const int32_t* indices;  // [num_rows]
  Tensor out;              // [num_rows, hidden_size]
};

// Writes entries of the persistent block tables: table[group][row][index] = block. Index -1 is
// padding and writes nothing.
struct BlockTableUpdate {
  int32_t group;
  int32_t row;
  int32_t index;
  BlockId block;
};
struct UpdateBlockTablesArgs {
  const BlockTableUpdate* updates;  // [num_updates]
  int64_t num_updates;
  int32_t* block_tables;  // [num_groups, max_num_seqs, max_blocks_per_seq]
  int64_t max_num_seqs;
  int64_t max_blocks_per_seq;
};

}  // namespace quire
