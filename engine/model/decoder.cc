#include "engine/model/decoder.h"

#include <utility>

#include "engine/model/weights/memory_carver.h"
#include "kernels/base/half.h"
#include "kernels/base/status_macros.h"
#include "kernels/float8_rows.h"

namespace quire {
namespace {

float Rounded(float value, DType dtype) {
  return dtype == DType::kBF16  ? static_cast<float>(BFloat16(value))
         : dtype == DType::kF16 ? static_cast<float>(Float16(value))
                                : value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Create(Backend& backend,
                                                         const ModelConfig& config,
                                                         const Weights& weights, DType dtype,
                                                         const DecoderLimits& limits) {
  std::unique_ptr<Decoder> decoder(
      new Decoder({.ops = &backend.ops(), .config = &config, .dtype = dtype, .limits = limits}));
  decoder->weights_ = &weights;
  ASSIGN_OR_RETURN(decoder->memory_, backend.device().Allocate(BytesFor(config, dtype, limits)));
  MemoryCarver carver(decoder->memory_.data());
  decoder->Carve(&carver);
  // Host memory is slow to touch first: not in a client's first prompt.
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend.device().CreateStream());
  stream->FillZero(decoder->memory_.data(), decoder->memory_.size_bytes());
  RETURN_IF_ERROR(decoder->gqa_.UploadTables(backend.device(), *stream));
  return decoder;
}

int64_t Decoder::BytesFor(const ModelConfig& config, DType dtype, const DecoderLimits& limits) {
  Decoder decoder({.ops = nullptr, .config = &config, .dtype = dtype, .limits = limits});
  MemoryCarver measure(nullptr);
  decoder.Carve(&measure);
  return measure.size_bytes();
}

void Decoder::Carve(MemoryCarver* carver) {
  const ModelConfig& c = *context_.config;
  const DecoderLimits& limits = context_.limits;
  hidden_memory_ =
      carver->TakeTensor(context_.dtype, {limits.max_num_batched_tokens, c.hidden_size});
  residual_memory_ =
      carver->TakeTensor(context_.dtype, {limits.max_num_batched_tokens, c.hidden_size});
  if (c.quantization.quantized() || c.load_quantization != LoadQuantization::kNone) {
    normed_memory_ =
        carver->Take(Float8Rows::MaxBytes(limits.max_num_batched_tokens, c.hidden_size));
  }
  gqa_.Carve(carver);
  delta_.Carve(carver);
  gated_mlp_.Carve(carver);
  logit_hidden_ = carver->TakeTensor(context_.dtype, {limits.max_logit_rows, c.hidden_size});
  logits_ = carver->TakeTensor(DType::kF32, {limits.max_logit_rows, c.vocab_size});
}

void Decoder::Forward(Stream& stream, const DecoderInputs& inputs, const KvArena& kv_arena,
                      const StateArena& state_arena) {
  const ModelConfig& config = *context_.config;
  const auto num_layers = static_cast<int>(config.layers.size());
  hidden_ = Rows(hidden_memory_, inputs.num_tokens);
  residual_ = Rows(residual_memory_, inputs.num_tokens);
  logits_indices_ = inputs.logits_indices;
  // The residual stream lives in residual_; a block's output waits in hidden_ until the next norm
  // adds it.
  context_.ops->Embedding(stream, {.input_ids = inputs.input_ids,
                                   .row_last_token = inputs.row_last_token,
                                   .table = &weights_->embedding(),
                                   .out = residual_});
  if (config.embedding_scale != 1) {
    context_.ops->Scale(
        stream, {.x = residual_, .factor = Rounded(config.embedding_scale, context_.dtype)});
  }
  for (int layer = 0; layer < num_layers; ++layer) {
    const LayerWeights& weights = weights_->layer(layer);
    const Normed x = NormedForAttention(layer);
    if (layer == 0) {
      Norm(stream, residual_, {}, weights.input_norm, x);
    } else {
      Norm(stream, hidden_, residual_, weights.input_norm, x);
    }
    if (!RunAttention(stream, layer, x, inputs, kv_arena, state_arena)) return;
    if (config.sandwich_norms) Norm(stream, hidden_, {}, weights.attention_out_norm, {hidden_});
    const Normed mlp_x = NormedFor(weights.gated_mlp.gate_up);
    Norm(stream, hidden_, residual_, weights.mlp_norm, mlp_x);
    RunMlp(stream, layer, mlp_x.tensor());
    if (config.sandwich_norms) Norm(stream, hidden_, {}, weights.mlp_out_norm, {hidden_});
  }
  Norm(stream, hidden_, residual_, weights_->final_norm(), {hidden_});
}

// out = norm(x), or with a residual: residual += x, out = norm(residual).
void Decoder::Norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& weight,
                   const Normed& out) {
  context_.ops->RmsNorm(stream, {.x = x,
                                 .residual = residual,
                                 .weight = weight,
                                 .eps = context_.config->rms_norm_eps,
                                 .out = out.rows,
                                 .float8_out = out.float8});
}

// Where a norm goes that this weight's operation reads.
Decoder::Normed Decoder::NormedFor(const LinearWeight& reader) const {
  if (NormedDType(reader) != DType::kF8E4M3) return {.rows = hidden_};
  return {.float8 = Float8Rows(hidden_.dim(0), hidden_.dim(1), normed_memory_).tensor()};
}

// Where a layer's first norm goes.
Decoder::Normed Decoder::NormedForAttention(int layer) const {
  const LayerWeights& weights = weights_->layer(layer);
  Normed x;
  switch (context_.config->layers[layer].attention) {
    case AttentionKind::kGqa:
      return NormedFor(weights.gqa.qkv);
    case AttentionKind::kGatedDelta:
      x = NormedFor(weights.delta.qkvz);
      x.rows = hidden_;  // which the gates read in any case
  }
  return x;
}

bool Decoder::IsLast(int layer) const {
  return layer + 1 == static_cast<int>(context_.config->layers.size());
}

// hidden_ = attention(x), and the layer's cache or state has the step's tokens. False if that was
// all: nothing reads more of the last layer.
bool Decoder::RunAttention(Stream& stream, int layer, const Normed& x, const DecoderInputs& inputs,
                           const KvArena& kv_arena, const StateArena& state_arena) {
  switch (context_.config->layers[layer].attention) {
    case AttentionKind::kGqa:
      return RunGqa(stream, layer, x.tensor(), inputs, kv_arena);
    case AttentionKind::kGatedDelta:
      return RunGatedDelta(stream, layer, x, inputs, state_arena);
  }
  return false;
}

bool Decoder::RunGqa(Stream& stream, int layer, const Tensor& x, const DecoderInputs& inputs,
                     const KvArena& kv_arena) {
  const GqaConfig& config = context_.config->layers[layer].gqa;
  const GqaWeights& weights = weights_->layer(layer).gqa;
  const int kv_layer = config.kv_sharing_target.value_or(layer);
  const KvCacheView kv_cache = Scaled(kv_arena.LayerView(kv_layer), weights_->layer(kv_layer).gqa);
  const int group = kv_arena.GroupOf(kv_layer);
  const Tensor q = gqa_.StoreKeysAndValues(stream, weights, config, x,
                                           {.positions = inputs.positions,
                                            .slot_mapping = inputs.slot_mapping[group],
                                            .kv_cache = kv_cache});
  if (IsLast(layer) && inputs.num_logit_rows == 0) return false;
  Tensor attended = gqa_.Attend(stream, *inputs.plans[group], weights, config, q, kv_cache);
  if (IsLast(layer) && inputs.num_logit_rows < inputs.num_tokens) {
    attended = gqa_.KeepRows(stream, attended, inputs.logits_indices, inputs.num_logit_rows);
    KeepResidualRows(stream, inputs);
  }
  gqa_.Project(stream, weights, attended, hidden_);
  return true;
}

bool Decoder::RunGatedDelta(Stream& stream, int layer, const Normed& x, const DecoderInputs& inputs,
                            const StateArena& state_arena) {
  const GatedDeltaWeights& weights = weights_->layer(layer).delta;
  Tensor found = delta_.Run(stream, weights, context_.config->layers[layer].delta, x.rows,
                            x.tensor(), state_arena.LayerView(layer), inputs.states);
  if (IsLast(layer) && inputs.num_logit_rows == 0) return false;
  if (IsLast(layer) && inputs.num_logit_rows < inputs.num_tokens) {
    found = delta_.KeepRows(stream, found, inputs.logits_indices, inputs.num_logit_rows);
    KeepResidualRows(stream, inputs);
  }
  delta_.Project(stream, weights, found, hidden_);
  return true;
}

// hidden_ = MLP(x).
void Decoder::RunMlp(Stream& stream, int layer, const Tensor& x) {
  switch (context_.config->layers[layer].mlp) {
    case MlpKind::kGated:
      return gated_mlp_.Run(stream, weights_->layer(layer).gated_mlp, x, hidden_);
  }
}

// From here on only the rows with logits: a prompt's other tokens have given the last layer their
// keys and values, and nothing reads more of them. hidden_ is free until attention writes it.
void Decoder::KeepResidualRows(Stream& stream, const DecoderInputs& inputs) {
  const Tensor kept = Rows(hidden_memory_, inputs.num_logit_rows);
  context_.ops->GatherRows(stream,
                           {.in = residual_, .indices = inputs.logits_indices, .out = kept});
  residual_ = kept;
  hidden_ = Rows(residual_memory_, inputs.num_logit_rows);
  logits_indices_ = nullptr;
}

Tensor Decoder::Logits(Stream& stream, int64_t first_row, int64_t num_rows) {
  Tensor hidden;
  if (logits_indices_ == nullptr) {
    hidden = Rows(hidden_, num_rows, first_row);
  } else {
    hidden = Rows(logit_hidden_, num_rows);
    context_.ops->GatherRows(
        stream, {.in = hidden_, .indices = logits_indices_ + first_row, .out = hidden});
  }
  const Tensor logits = Rows(logits_, num_rows);
  context_.ops->Linear(stream, {.x = hidden, .weight = &weights_->lm_head(), .out = logits});
  if (context_.config->logit_soft_cap > 0) {
    context_.ops->SoftCap(stream, {.x = logits, .cap = context_.config->logit_soft_cap});
  }
  return logits;
}

}  // namespace quire
