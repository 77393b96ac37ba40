#include "engine/model/decoder.h"

#include <utility>

#include "engine/model/weights/memory_carver.h"
#include "kernels/base/status_macros.h"
#include "kernels/float8_rows.h"

namespace quire {

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
  routed_mlp_.Carve(carver);
  side_experts_.Carve(carver);
  per_layer_input_.Carve(carver);
  logit_hidden_ = carver->TakeTensor(context_.dtype, {limits.max_logit_rows, c.hidden_size});
  logits_ = carver->TakeTensor(DType::kF32, {limits.max_logit_rows, c.vocab_size});
  const int64_t num_experts = MostExperts(c);
  if (limits.counts_experts && num_experts > 0) {
    expert_counts_ =
        carver->TakeTensor(DType::kI64, {static_cast<int64_t>(c.layers.size()), num_experts});
  }
}

void Decoder::Forward(Stream& stream, const DecoderInputs& inputs, const KvArena& kv_arena,
                      const StateArena& state_arena) {
  const ModelConfig& config = *context_.config;
  const auto num_layers = static_cast<int>(config.layers.size());
  Embed(stream, inputs);
  for (int layer = 0; layer < num_layers; ++layer) {
    const LayerWeights& weights = weights_->layer(layer);
    const Normed x = Enter(stream, weights.input_norm, NormedForAttention(layer));
    const Tensor found = Attend(stream, layer, x, inputs, kv_arena, state_arena);
    if (found.empty()) return;
    const bool is_parallel = config.block_order == BlockOrder::kParallel;
    if (is_parallel) AddParallelMlp(stream, layer, x);
    Project(stream, layer, found);
    Leave(stream, weights.attention_out_norm);
    if (!is_parallel) {
      const Normed mlp_x = Enter(stream, weights.mlp_norm, NormedForMlp(layer));
      RunMlp(stream, layer, mlp_x);
      Leave(stream, weights.mlp_out_norm);
    }
    if (config.per_layer_input.size > 0) RunPerLayerInput(stream, layer, inputs);
    if (config.layer_scalars) Add(stream, weights.scalar);
  }
  Enter(stream, weights_->final_norm(), {hidden_});
}

// The residual stream lives in residual_; a block's output waits in hidden_ until the next norm
// adds it.
void Decoder::Embed(Stream& stream, const DecoderInputs& inputs) {
  const ModelConfig& config = *context_.config;
  hidden_ = Rows(hidden_memory_, inputs.num_tokens);
  residual_ = Rows(residual_memory_, inputs.num_tokens);
  output_waits_ = false;
  logits_indices_ = inputs.logits_indices;
  slots_ = inputs.slot_mapping.empty() ? nullptr : inputs.slot_mapping.front();
  context_.ops->Embedding(stream, {.input_ids = inputs.input_ids,
                                   .row_last_token = inputs.row_last_token,
                                   .table = &weights_->embedding(),
                                   .out = residual_});
  if (config.embedding_scale != 1) {
    context_.ops->Scale(
        stream, {.x = residual_, .factor = Rounded(config.embedding_scale, context_.dtype)});
  }
  if (config.per_layer_input.size > 0) {
    per_layer_input_.Prepare(
        stream, weights_->per_layer_input(),
        {.input_ids = inputs.input_ids, .row_last_token = inputs.row_last_token}, residual_);
  }
}

// residual_ = (residual_ + hidden_) * factor, which is empty or a number.
void Decoder::Add(Stream& stream, const Tensor& factor) {
  context_.ops->Add(stream, {.x = residual_, .y = hidden_, .factor = factor});
  output_waits_ = false;
}

// Returns what a block reads: norm(residual_) in `out`, or residual_ if there is no norm. An output
// that waits is added to residual_ first.
Decoder::Normed Decoder::Enter(Stream& stream, const Tensor& norm, const Normed& out) {
  if (norm.empty()) {
    if (output_waits_) Add(stream, {});
  } else if (output_waits_) {
    Norm(stream, hidden_, residual_, norm, out);
  } else {
    Norm(stream, residual_, {}, norm, out);
  }
  output_waits_ = true;  // once the block has run
  return norm.empty() ? Normed{.rows = residual_} : out;
}

// Applies the norm and the scale that a block's output gets before it is added.
void Decoder::Leave(Stream& stream, const Tensor& norm) {
  const float scale = context_.config->residual_scale;
  if (!norm.empty()) Norm(stream, hidden_, {}, norm, {hidden_});
  if (scale != 1) context_.ops->Scale(stream, {.x = hidden_, .factor = scale});
}

// out = norm(x), or with a residual: residual += x, out = norm(residual).
void Decoder::Norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& weight,
                   const Normed& out) {
  context_.ops->RmsNorm(stream, {.x = x,
                                 .residual = residual,
                                 .weight = weight,
                                 .eps = context_.config->norm_eps,
                                 .centred = context_.config->norm == NormKind::kLayer,
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

// Where the norm before a layer's MLP goes.
Decoder::Normed Decoder::NormedForMlp(int layer) const {
  const LayerWeights& weights = weights_->layer(layer);
  const RoutedMlpWeights& routed = weights.routed_mlp;
  Normed x;
  switch (context_.config->layers[layer].mlp) {
    case MlpKind::kGated:
    case MlpKind::kGatedAndRouted:
      return NormedFor(weights.gated_mlp.gate_up);
    case MlpKind::kRouted:
      if (context_.config->layers[layer].routed.shared_intermediate_size > 0) {
        x = NormedFor(routed.shared.gate_up);
      }
      x.rows = hidden_;  // which the router reads in any case
  }
  return x;
}

bool Decoder::IsLast(int layer) const {
  return layer + 1 == static_cast<int>(context_.config->layers.size());
}

// Returns what attention finds, before its last projection. The layer's cache or state then has the
// step's tokens. Returns an empty tensor if that was all: nothing reads more of the last layer.
Tensor Decoder::Attend(Stream& stream, int layer, const Normed& x, const DecoderInputs& inputs,
                       const KvArena& kv_arena, const StateArena& state_arena) {
  switch (context_.config->layers[layer].attention) {
    case AttentionKind::kGqa:
      return RunGqa(stream, layer, x.tensor(), inputs, kv_arena);
    case AttentionKind::kGatedDelta:
      return RunGatedDelta(stream, layer, x, inputs, state_arena);
  }
  return {};
}

Tensor Decoder::RunGqa(Stream& stream, int layer, const Tensor& x, const DecoderInputs& inputs,
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
  if (IsLast(layer) && inputs.num_logit_rows == 0) return {};
  Tensor attended = gqa_.Attend(stream, *inputs.plans[group], weights, config, q, kv_cache);
  if (IsLast(layer) && inputs.num_logit_rows < inputs.num_tokens) {
    attended = gqa_.KeepRows(stream, attended, inputs.logits_indices, inputs.num_logit_rows);
    KeepResidualRows(stream, inputs);
  }
  return attended;
}

Tensor Decoder::RunGatedDelta(Stream& stream, int layer, const Normed& x,
                              const DecoderInputs& inputs, const StateArena& state_arena) {
  const GatedDeltaWeights& weights = weights_->layer(layer).delta;
  Tensor found = delta_.Run(stream, weights, context_.config->layers[layer].delta, x.rows,
                            x.tensor(), state_arena.LayerView(layer), inputs.states);
  if (IsLast(layer) && inputs.num_logit_rows == 0) return {};
  if (IsLast(layer) && inputs.num_logit_rows < inputs.num_tokens) {
    found = delta_.KeepRows(stream, found, inputs.logits_indices, inputs.num_logit_rows);
    KeepResidualRows(stream, inputs);
  }
  return found;
}

// hidden_ = what attention adds, of what it has found.
void Decoder::Project(Stream& stream, int layer, const Tensor& found) {
  switch (context_.config->layers[layer].attention) {
    case AttentionKind::kGqa:
      return gqa_.Project(stream, weights_->layer(layer).gqa, found, hidden_);
    case AttentionKind::kGatedDelta:
      return delta_.Project(stream, weights_->layer(layer).delta, found, hidden_);
  }
}

// residual_ += MLP(x), x as attention has read it. That is still there, unless fewer rows are left
// or the MLP reads another form of it.
void Decoder::AddParallelMlp(Stream& stream, int layer, const Normed& attention_x) {
  const LayerWeights& weights = weights_->layer(layer);
  const auto is_there = [](const Tensor& wanted, const Tensor& was) {
    return wanted.empty() || (wanted.data() == was.data() && wanted.dim(0) == was.dim(0));
  };
  const Normed x = NormedForMlp(layer);
  if (!is_there(x.rows, attention_x.rows) || !is_there(x.float8, attention_x.float8)) {
    Norm(stream, residual_, {}, weights.input_norm, x);
  }
  RunMlp(stream, layer, x);
  Leave(stream, weights.mlp_out_norm);
  Add(stream, {});
  output_waits_ = true;  // attention's, once it is projected
}

// hidden_ = MLP(x).
void Decoder::RunMlp(Stream& stream, int layer, const Normed& x) {
  const LayerConfig& config = context_.config->layers[layer];
  const LayerWeights& weights = weights_->layer(layer);
  const RoutedMlpWeights& routed = weights.routed_mlp;
  switch (config.mlp) {
    case MlpKind::kGated:
      return gated_mlp_.Run(stream, weights.gated_mlp, x.tensor(), hidden_);
    case MlpKind::kRouted:
      return routed_mlp_.Run(stream, routed, config.routed,
                             {.router_rows = x.rows,
                              .rows = x.rows,
                              .shared_rows = x.tensor(),
                              .counts = CountsOf(layer)},
                             hidden_);
    case MlpKind::kGatedAndRouted:
      gated_mlp_.Run(stream, weights.gated_mlp, x.tensor(), hidden_);
      return side_experts_.Run(stream, weights.side_experts, routed, config.routed, CountsOf(layer),
                               residual_, hidden_);
  }
}

ExpertCounts Decoder::CountsOf(int layer) const {
  if (expert_counts_.empty()) return {};
  const int64_t num_experts = context_.config->layers[layer].routed.router.num_experts;
  return {Begin(Rows(expert_counts_, 1, layer), {num_experts}), slots_};
}

// hidden_ = what the layer adds of its own input of each token.
void Decoder::RunPerLayerInput(Stream& stream, int layer, const DecoderInputs& inputs) {
  Add(stream, {});
  Tensor input = per_layer_input_.InputOf(layer, inputs.num_tokens);
  if (logits_indices_ == nullptr) {
    input = per_layer_input_.KeepRows(stream, input, inputs.logits_indices, residual_.dim(0));
  }
  per_layer_input_.Run(stream, weights_->layer(layer).per_layer_input, residual_, input, hidden_);
  output_waits_ = true;
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
  slots_ = nullptr;
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
  if (context_.config->logit_scale != 1) {
    context_.ops->Scale(stream, {.x = logits, .factor = context_.config->logit_scale});
  }
  if (context_.config->logit_soft_cap > 0) {
    context_.ops->SoftCap(stream, {.x = logits, .cap = context_.config->logit_soft_cap});
  }
  return logits;
}

}  // namespace quire
