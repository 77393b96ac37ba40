// Decoder: the transformer itself. Forward enqueues one step of it on a stream: embedding, layers,
// final norm; Logits the LM head for the rows that need it. Owns the activations and the rope
// table, at fixed addresses; knows nothing of requests. Engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"
#include "kvcache/kv_arena.h"

namespace quire {

class MemoryCarver;

struct DecoderLimits {
  int64_t max_num_tokens;  // of one step
  int64_t max_logit_rows;  // rows of logits computed at once
  int64_t max_model_len;   // positions the rope table covers
};

// One step's inputs in device memory; the same fields as BatchMetadata. The layer groups are those
// of the arena's layout.
struct DecoderInputs {
  int64_t num_tokens;
  const int32_t* input_ids;                  // [num_tokens]; ~row = the row's last sampled token
  const int32_t* row_last_token;             // [max_num_seqs]
  const int64_t* positions;                  // [num_tokens]
  std::vector<const int64_t*> slot_mapping;  // per layer group: [num_tokens]
  std::vector<const AttentionPlan*> plans;   // per layer group
  const int32_t* logits_indices;             // [num_logit_rows] tokens whose logits are wanted
  int64_t num_logit_rows;                    // a token may be there twice
};

class Decoder {
 public:
  // The references must outlive the decoder. RESOURCE_EXHAUSTED when the device has no room for the
  // activations.
  static absl::StatusOr<std::unique_ptr<Decoder>> Create(Backend& backend,
                                                         const ModelConfig& config,
                                                         const Weights& weights, DType dtype,
                                                         const DecoderLimits& limits);

  // Device bytes that Create takes.
  static int64_t BytesFor(const ModelConfig& config, DType dtype, const DecoderLimits& limits);

  // Runs the layers over all tokens, and the last one, once its keys and values are stored, over
  // the tokens whose logits are wanted. Hidden states stay inside for Logits.
  void Forward(Stream& stream, const DecoderInputs& inputs, const KvArena& kv_arena);

  // Logits of the rows [first_row, first_row + num_rows) that the last Forward was asked for
  // (num_rows <= max_logit_rows): [num_rows, vocab_size] float32, valid until the next call.
  Tensor Logits(Stream& stream, int64_t first_row, int64_t num_rows);

  int64_t size_bytes() const { return memory_.size_bytes(); }  // activations, logits and tables

 private:
  Decoder() = default;
  void Carve(MemoryCarver* carver);
  absl::Status UploadRopeTable(Device& device, Stream& stream, const RopeConfig& rope,
                               const Tensor& table);
  void Norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& weight);
  const Tensor& RopeTableOf(int layer) const;
  void StoreKeysAndValues(Stream& stream, int layer, const DecoderInputs& inputs,
                          const int64_t* slot_mapping, const KvCacheView& kv_cache);
  void RunAttention(Stream& stream, const AttentionPlan& plan, const KvCacheView& kv_cache);
  void ProjectAttention(Stream& stream, int layer);
  void RunMlp(Stream& stream, int layer);
  void KeepLogitRows(Stream& stream, const DecoderInputs& inputs);

  Ops* ops_ = nullptr;
  const ModelConfig* config_ = nullptr;
  const Weights* weights_ = nullptr;
  DType dtype_ = DType::kBF16;
  DecoderLimits limits_ = {};
  int32_t rotary_dim_ = 0;
  // Of the last Forward:
  int64_t num_rows_ = 0;  // the tokens, or the rows with logits once they are all
  Tensor hidden_;         // [num_rows, hidden_size]
  Tensor residual_;       // [num_rows, hidden_size]
  Tensor attended_;       // [num_rows, num_q_heads * head_dim]
  const int32_t* logits_indices_ = nullptr;  // null: the rows are those with logits
  DeviceBuffer memory_;                      // everything below, in one allocation
  Tensor cos_sin_;                           // [max_model_len, rotary_dim] float32
  Tensor sliding_cos_sin_;  // the same for layers with a window, or empty: cos_sin_ is for all
  Tensor hidden_memory_;    // [max_num_tokens, hidden_size]
  Tensor residual_memory_;  // [max_num_tokens, hidden_size]
  Tensor qkv_;              // [max_num_tokens, (num_q_heads + 2 * num_kv_heads) * head_dim]
  Tensor q_;                // [max_num_tokens, num_q_heads, head_dim]
  Tensor attention_out_;    // [max_num_tokens, num_q_heads, head_dim]
  Tensor gate_up_;          // [max_num_tokens, 2 * intermediate_size]
  Tensor mlp_;              // [max_num_tokens, intermediate_size]
  Tensor logit_hidden_;     // [max_logit_rows, hidden_size]
  Tensor logits_;           // [max_logit_rows, vocab_size] float32
};

}  // namespace quire
