// Decoder: the transformer itself. Forward enqueues one step of it on a stream: embedding, layers,
// final norm; Logits the LM head for the rows that need it. Owns the activations and the rope
// table, at fixed addresses; knows nothing of requests. Engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/blocks/block.h"
#include "engine/model/blocks/gated_delta_net.h"
#include "engine/model/blocks/gated_mlp.h"
#include "engine/model/blocks/gqa_attention.h"
#include "engine/model/blocks/per_layer_input.h"
#include "engine/model/blocks/routed_mlp.h"
#include "engine/model/blocks/side_experts.h"
#include "engine/model/config/model_config.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"
#include "kvcache/kv_arena.h"
#include "kvcache/state_arena.h"

namespace quire {

// One step's inputs in device memory; the same fields as BatchMetadata. The layer groups are the
// groups of the arena's layout.
struct DecoderInputs {
  int64_t num_tokens;
  const int32_t* input_ids;                  // [num_tokens]; ~row = the row's last sampled token
  const int32_t* row_last_token;             // [max_num_seqs]
  const int64_t* positions;                  // [num_tokens]
  std::vector<const int64_t*> slot_mapping;  // per layer group: [num_tokens]
  std::vector<const AttentionPlan*> plans;   // per layer group
  const int32_t* logits_indices;             // [num_logit_rows] tokens whose logits are wanted
  int64_t num_logit_rows;                    // a token may be there twice
  StateBatch states = {};                    // read where a layer keeps states
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

  // Runs the layers over all tokens. Once the last layer's keys and values are stored, the rest of
  // it runs only over the tokens whose logits are wanted. The decoder keeps the hidden states for
  // Logits.
  void Forward(Stream& stream, const DecoderInputs& inputs, const KvArena& kv_arena,
               const StateArena& state_arena);

  // Logits of the rows [first_row, first_row + num_rows) among the logit rows of the last Forward
  // (num_rows <= max_logit_rows): [num_rows, vocab_size] float32, valid until the next call.
  Tensor Logits(Stream& stream, int64_t first_row, int64_t num_rows);
  // Where Logits leaves its rows: for steps that a graph has enqueued.
  Tensor logits(int64_t num_rows) const { return logits_.Rows(0, num_rows); }

  // [num_layers, the most experts of a layer] int64 in device memory: how many tokens of all steps
  // have chosen each expert. Empty unless DecoderLimits::counts_experts.
  const Tensor& expert_counts() const { return expert_counts_; }

  int64_t size_bytes() const { return memory_.size_bytes(); }  // activations, logits and tables

 private:
  explicit Decoder(const BlockContext& context)
      : context_(context),
        gqa_(context),
        delta_(context),
        gated_mlp_(context),
        routed_mlp_(context, gated_mlp_),
        side_experts_(context, routed_mlp_),
        per_layer_input_(context) {}

  // A norm's results: rows in the activations' dtype, Float8Rows, or both.
  struct Normed {
    Tensor rows = {};
    Tensor float8 = {};
    const Tensor& tensor() const { return float8.empty() ? rows : float8; }
  };

  void Carve(MemoryCarver* carver);
  void Embed(Stream& stream, const DecoderInputs& inputs);
  void Norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& weight,
            const Normed& out);
  void Add(Stream& stream, const Tensor& factor);
  Normed Enter(Stream& stream, const Tensor& norm, const Normed& out);
  void Leave(Stream& stream, const Tensor& norm);
  Normed NormedFor(const LinearWeight& reader) const;
  Normed NormedForAttention(int layer) const;
  Normed NormedForMlp(int layer) const;
  Tensor Attend(Stream& stream, int layer, const Normed& x, const DecoderInputs& inputs,
                const KvArena& kv_arena, const StateArena& state_arena);
  Tensor RunGqa(Stream& stream, int layer, const Tensor& x, const DecoderInputs& inputs,
                const KvArena& kv_arena);
  Tensor RunGatedDelta(Stream& stream, int layer, const Normed& x, const DecoderInputs& inputs,
                       const StateArena& state_arena);
  void Project(Stream& stream, int layer, const Tensor& found);
  bool IsLast(int layer) const;
  void AddParallelMlp(Stream& stream, int layer, const Normed& attention_x);
  void RunMlp(Stream& stream, int layer, const Normed& x);
  ExpertCounts CountsOf(int layer) const;
  void RunPerLayerInput(Stream& stream, int layer, const DecoderInputs& inputs);
  void KeepResidualRows(Stream& stream, const DecoderInputs& inputs);

  BlockContext context_;
  const Weights* weights_ = nullptr;
  GqaAttention gqa_;
  GatedDeltaNet delta_;
  GatedMlp gated_mlp_;
  RoutedMlp routed_mlp_;
  SideExperts side_experts_;
  PerLayerInput per_layer_input_;
  // The state of the last Forward:
  Tensor hidden_;    // [num_rows, hidden_size]: of the tokens, or of those with logits in the end
  Tensor residual_;  // [num_rows, hidden_size]
  bool output_waits_ = false;  // hidden_ is a block's output, which is not in residual_ yet
  const int32_t* logits_indices_ = nullptr;  // null: the rows are those with logits
  const int64_t* slots_ = nullptr;           // of the rows; null: none of them pads
  DeviceBuffer memory_;                      // of everything below and of the blocks
  Tensor hidden_memory_;                     // [max_num_batched_tokens, hidden_size]
  void* normed_memory_ = nullptr;            // Float8Rows of as many, of quantized models
  Tensor residual_memory_;                   // [max_num_batched_tokens, hidden_size]
  Tensor logit_hidden_;                      // [max_logit_rows, hidden_size]
  Tensor logits_;                            // [max_logit_rows, vocab_size] float32
  Tensor expert_counts_;
};

}  // namespace quire
