// SequenceRunner: one sequence through a model's Weights, Decoder, KvArena and attention, without
// scheduler or runner. The model tests and decoder_tool compare it with Hugging Face. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/config/model_config.h"
#include "engine/model/decoder.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"
#include "kvcache/kv_arena.h"
#include "kvcache/state_arena.h"

namespace quire {

struct SequenceRunnerOptions {
  DType dtype = DType::kF32;           // of weights and activations
  std::optional<DType> kv_dtype = {};  // the same if unset
  std::vector<DType> kv_dtypes = {};   // of each layer; empty: kv_dtype
  // What config.json cannot say yet is added to what it says.
  std::function<void(ModelConfig&)> adjust = {};
  int64_t max_len = 256;  // tokens of the sequence
  LoadFormat format = LoadFormat::kAuto;
  DeviceKind device = DeviceKind::kCpu;
  AttentionPath path = AttentionPath::kNative;
  bool replay_decodes = false;  // steps of one token are captured once, and replayed
  DType state_dtype = DType::kF32;
};

class SequenceRunner {
 public:
  static absl::StatusOr<std::unique_ptr<SequenceRunner>> Create(
      const std::string& folder, const SequenceRunnerOptions& options);

  // Runs the sequence's next tokens as one step; returns each one's natural-log probabilities
  // [tokens.size() * vocab_size] of the token after it.
  std::vector<float> Append(absl::Span<const TokenId> tokens);

  // The same with probabilities for only the last num_rows tokens.
  std::vector<float> AppendWanting(int64_t num_rows, absl::Span<const TokenId> tokens);

  // As Append for all of `tokens`, at most `chunk` of them per step.
  std::vector<float> AppendInChunks(absl::Span<const TokenId> tokens, int64_t chunk);

  // As Append for all of `tokens`: a prompt of the first ones, then steps of one token each.
  std::vector<float> AppendPromptAndDecodes(absl::Span<const TokenId> tokens, size_t num_prompt);

  // Gives an 8-bit cache scales from `num_tokens` tokens, with activations of this dtype.
  absl::Status CalibrateKvScales(DType dtype, int64_t num_tokens);

  // Forgets the sequence.
  void Restart() { num_computed_ = 0; }

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return *weights_; }

 private:
  // One step's metadata; the device has a copy at fixed addresses.
  struct Metadata;

  absl::Status Open(const std::string& folder, const SequenceRunnerOptions& options);
  absl::Status OpenAttention(const SequenceRunnerOptions& options);
  Tensor EnqueueStep(int64_t num_tokens, int64_t num_rows);
  Tensor ReplayDecode();
  void FillMetadata(absl::Span<const TokenId> tokens);
  BlockId BlockOf(int group, int64_t index) const;

  ModelConfig config_;
  int64_t max_len_ = 0;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<KvArena> arena_;
  StateArena states_;
  std::vector<std::unique_ptr<AttentionPlan>> plans_;  // per layer group
  std::unique_ptr<Decoder> decoder_;
  DeviceBuffer pinned_;    // Metadata
  DeviceBuffer device_;    // its copy
  DeviceBuffer host_out_;  // logits of one step
  int64_t num_computed_ = 0;
  bool replay_decodes_ = false;
  std::unique_ptr<ExecGraph> decode_graph_;
  Tensor decode_logits_;  // of the graph
};

}  // namespace quire
