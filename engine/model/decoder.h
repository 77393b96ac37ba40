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
// of GroupLayersByWindow(config.layer_windows).
struct DecoderInputs {
  int64_t num_tokens;
  const int32_t* input_ids;                  // [num_tokens]; ~row = the row's last sampled token
  const int32_t* row_last_token;             // [max_num_seqs]
  const int64_t* positions;                  // [num_tokens]
  std::vector<const int64_t*> slot_mapping;  // per layer group: [num_tokens]
  std::vector<const AttentionPlan*> plans;   // per layer group
};

class Decoder {
 public:
  // The references must outlive the decoder. RESOURCE_EXHAUSTED when the device has no room for the
  // activations.
  static absl::StatusOr<std::unique_ptr<Decoder>> Create(Backend& backend,
                                                         const ModelConfig& config,
                                                         const Weights& weights,
                                                         AttentionBackend& attention, DType dtype,
                                                         const DecoderLimits& limits);

  // Runs the layers over all tokens; hidden states stay inside for Logits.
  void Forward(Stream& stream, const DecoderInputs& inputs, const KvArena& kv_arena);

  // Logits of the tokens `indices` [num_rows] (device memory; num_rows <= max_logit_rows) of the
  // last Forward: [num_rows, vocab_size] float32, valid until the next call.
  Tensor Logits(Stream& stream, const int32_t* indices, int64_t num_rows);

  int64_t size_bytes() const { return memory_.size_bytes(); }  // activations, logits and tables

 private:
  Decoder() = default;
  void Carve(MemoryCarver* carver);
  absl::Status UploadRopeTable(Device& device, const RopeConfig& rope, const Tensor& table);
  void Norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& weight);
  const Tensor& RopeTableOf(int layer) const;
  void RunAttention(Stream& stream, int layer, const DecoderInputs& inputs,
                    const KvArena& kv_arena);
  void RunMlp(Stream& stream, int layer);

  Ops* ops_ = nullptr;
  AttentionBackend* attention_ = nullptr;
  const ModelConfig* config_ = nullptr;
  const Weights* weights_ = nullptr;
  DType dtype_ = DType::kBF16;
  DecoderLimits limits_ = {};
  int32_t rotary_dim_ = 0;
  std::vector<int> group_of_layer_;  // [num_layers] index into DecoderInputs' groups
  int64_t num_tokens_ = 0;           // of the last Forward
  DeviceBuffer memory_;              // everything below, in one allocation
  Tensor cos_sin_;                   // [max_model_len, rotary_dim] float32
  Tensor sliding_cos_sin_;  // the same for layers with a window, or empty: cos_sin_ is for all
  Tensor hidden_;           // [max_num_tokens, hidden_size]
  Tensor residual_;         // [max_num_tokens, hidden_size]
  Tensor qkv_;              // [max_num_tokens, (num_q_heads + 2 * num_kv_heads) * head_dim]
  Tensor q_;                // [max_num_tokens, num_q_heads, head_dim]
  Tensor attention_out_;    // [max_num_tokens, num_q_heads, head_dim]
  Tensor gate_up_;          // [max_num_tokens, 2 * intermediate_size]
  Tensor mlp_;              // [max_num_tokens, intermediate_size]
  Tensor logit_hidden_;     // [max_logit_rows, hidden_size]
  Tensor logits_;           // [max_logit_rows, vocab_size] float32
};

}  // namespace quire
