#include "engine/model/decoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/memory_carver.h"
#include "engine/model/rope_table.h"
#include "kernels/base/half.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

// `num_rows` rows of a buffer.
Tensor Rows(const Tensor& buffer, int64_t num_rows, int64_t first_row = 0) {
  CHECK_LE(first_row + num_rows, buffer.dim(0));
  void* data = static_cast<char*>(buffer.data()) +
               first_row * buffer.row_stride() * DTypeBytes(buffer.dtype());
  if (buffer.rank() == 3) {
    return Tensor(data, buffer.dtype(), {num_rows, buffer.dim(1), buffer.dim(2)});
  }
  return Tensor(data, buffer.dtype(), {num_rows, buffer.dim(1)});
}

// [num_tokens, heads, head_dim] as [num_tokens, heads * head_dim].
Tensor Flat(const Tensor& heads) {
  return Tensor(heads.data(), heads.dtype(), {heads.dim(0), heads.dim(1) * heads.dim(2)});
}

float Rounded(float value, DType dtype) {
  return dtype == DType::kBF16 ? static_cast<float>(BFloat16(value)) : value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Create(Backend& backend,
                                                         const ModelConfig& config,
                                                         const Weights& weights, DType dtype,
                                                         const DecoderLimits& limits) {
  std::unique_ptr<Decoder> decoder(new Decoder);
  decoder->ops_ = &backend.ops();
  decoder->config_ = &config;
  decoder->rotary_dim_ = RotaryDim(config);
  decoder->weights_ = &weights;
  decoder->dtype_ = dtype;
  decoder->limits_ = limits;
  ASSIGN_OR_RETURN(decoder->memory_, backend.device().Allocate(BytesFor(config, dtype, limits)));
  MemoryCarver carver(decoder->memory_.data());
  decoder->Carve(&carver);
  // Host memory is slow to touch first: not in a client's first prompt.
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend.device().CreateStream());
  stream->FillZero(decoder->memory_.data(), decoder->memory_.size_bytes());
  Device& device = backend.device();
  RETURN_IF_ERROR(decoder->UploadRopeTable(device, *stream, config.rope, decoder->cos_sin_));
  if (!decoder->sliding_cos_sin_.empty()) {
    RETURN_IF_ERROR(
        decoder->UploadRopeTable(device, *stream, config.sliding_rope, decoder->sliding_cos_sin_));
  }
  return decoder;
}

int64_t Decoder::BytesFor(const ModelConfig& config, DType dtype, const DecoderLimits& limits) {
  Decoder decoder;
  decoder.config_ = &config;
  decoder.dtype_ = dtype;
  decoder.limits_ = limits;
  decoder.rotary_dim_ = RotaryDim(config);
  MemoryCarver measure(nullptr);
  decoder.Carve(&measure);
  return measure.size_bytes();
}

void Decoder::Carve(MemoryCarver* carver) {
  const ModelConfig& c = *config_;
  const int64_t n = limits_.max_num_tokens;
  const int64_t num_qkv_heads = c.num_q_heads + 2 * int64_t{c.num_kv_heads};
  cos_sin_ = carver->TakeTensor(DType::kF32, {limits_.max_model_len, rotary_dim_});
  if (c.sliding_rope != c.rope) {
    sliding_cos_sin_ = carver->TakeTensor(DType::kF32, {limits_.max_model_len, rotary_dim_});
  }
  hidden_memory_ = carver->TakeTensor(dtype_, {n, c.hidden_size});
  residual_memory_ = carver->TakeTensor(dtype_, {n, c.hidden_size});
  qkv_ = carver->TakeTensor(dtype_, {n, num_qkv_heads * c.head_dim});
  q_ = carver->TakeTensor(dtype_, {n, c.num_q_heads, c.head_dim});
  attention_out_ = carver->TakeTensor(dtype_, {n, c.num_q_heads, c.head_dim});
  gate_up_ = carver->TakeTensor(dtype_, {n, 2 * c.intermediate_size});
  mlp_ = carver->TakeTensor(dtype_, {n, c.intermediate_size});
  logit_hidden_ = carver->TakeTensor(dtype_, {limits_.max_logit_rows, c.hidden_size});
  logits_ = carver->TakeTensor(DType::kF32, {limits_.max_logit_rows, c.vocab_size});
}

absl::Status Decoder::UploadRopeTable(Device& device, Stream& stream, const RopeConfig& rope,
                                      const Tensor& table) {
  ASSIGN_OR_RETURN(const DeviceBuffer staging, device.AllocatePinned(table.num_bytes()));
  FillRopeTable(ComputeRopeFrequencies(rope, rotary_dim_, limits_.max_model_len),
                limits_.max_model_len, staging.as<float>());
  stream.CopyToDevice(table.data(), staging.data(), table.num_bytes());
  return stream.Synchronize();  // before the staging memory goes
}

void Decoder::Forward(Stream& stream, const DecoderInputs& inputs, const KvArena& kv_arena) {
  num_rows_ = inputs.num_tokens;
  hidden_ = Rows(hidden_memory_, num_rows_);
  residual_ = Rows(residual_memory_, num_rows_);
  logits_indices_ = inputs.logits_indices;
  // The residual stream lives in residual_; a block's output waits in hidden_ until the next norm
  // adds it.
  ops_->Embedding(stream, {.input_ids = inputs.input_ids,
                           .row_last_token = inputs.row_last_token,
                           .table = &weights_->embedding(),
                           .out = residual_});
  if (config_->embedding_scale != 1) {
    ops_->Scale(stream, {.x = residual_, .factor = Rounded(config_->embedding_scale, dtype_)});
  }
  for (int layer = 0; layer < config_->num_layers; ++layer) {
    const Tensor& norm = weights_->layer(layer).input_norm;
    if (layer == 0) {
      Norm(stream, residual_, {}, norm);
    } else {
      Norm(stream, hidden_, residual_, norm);
    }
    const KvCacheView kv_cache = kv_arena.LayerView(layer);
    const int group = kv_arena.GroupOf(layer);
    StoreKeysAndValues(stream, layer, inputs, inputs.slot_mapping[group], kv_cache);
    const bool is_last = layer + 1 == config_->num_layers;
    if (is_last && inputs.num_logit_rows == 0) return;
    RunAttention(stream, *inputs.plans[group], kv_cache);
    if (is_last && inputs.num_logit_rows < num_rows_) KeepLogitRows(stream, inputs);
    ProjectAttention(stream, layer);
    Norm(stream, hidden_, residual_, weights_->layer(layer).mlp_norm);
    RunMlp(stream, layer);
  }
  Norm(stream, hidden_, residual_, weights_->final_norm());
}

// hidden_ = norm(x), or with a residual: residual += x, hidden_ = norm(residual).
void Decoder::Norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& weight) {
  ops_->RmsNorm(stream, {.x = x,
                         .residual = residual,
                         .weight = weight,
                         .eps = config_->rms_norm_eps,
                         .out = hidden_});
}

const Tensor& Decoder::RopeTableOf(int layer) const {
  const bool own = config_->layer_windows[layer] > 0 && !sliding_cos_sin_.empty();
  return own ? sliding_cos_sin_ : cos_sin_;
}

// qkv = qkv(hidden_); q_ = rope(q); the cache gets rope(k) and v.
void Decoder::StoreKeysAndValues(Stream& stream, int layer, const DecoderInputs& inputs,
                                 const int64_t* slot_mapping, const KvCacheView& kv_cache) {
  const LayerWeights& weights = weights_->layer(layer);
  const Tensor qkv = Rows(qkv_, num_rows_);
  ops_->Linear(stream,
               {.x = hidden_, .weight = &weights.qkv, .bias = weights.qkv_bias, .out = qkv});
  ops_->RopeAndStoreKv(stream, {.qkv = qkv,
                                .q_norm_weight = weights.q_norm,
                                .k_norm_weight = weights.k_norm,
                                .norm_eps = config_->rms_norm_eps,
                                .cos_sin = RopeTableOf(layer).as<float>(),
                                .rotary_dim = rotary_dim_,
                                .positions = inputs.positions,
                                .slot_mapping = slot_mapping,
                                .num_q_heads = config_->num_q_heads,
                                .kv_cache = kv_cache,
                                .q_out = Rows(q_, num_rows_)});
}

// attended_ = attention(q_)
void Decoder::RunAttention(Stream& stream, const AttentionPlan& plan, const KvCacheView& kv_cache) {
  const Tensor out = Rows(attention_out_, num_rows_);
  plan.Run(stream, {.q = Rows(q_, num_rows_), .kv_cache = kv_cache, .out = out});
  attended_ = Flat(out);
}

// From here on only the rows with logits: a prompt's other tokens have given the last layer their
// keys and values, and nothing reads more of them. hidden_ is free before ProjectAttention, and q_
// after RunAttention.
void Decoder::KeepLogitRows(Stream& stream, const DecoderInputs& inputs) {
  num_rows_ = inputs.num_logit_rows;
  logits_indices_ = nullptr;
  const auto keep = [&](const Tensor& in, const Tensor& out) {
    ops_->GatherRows(stream, {.in = in, .indices = inputs.logits_indices, .out = out});
    return out;
  };
  attended_ = keep(attended_, Flat(Rows(q_, num_rows_)));
  residual_ = keep(residual_, Rows(hidden_memory_, num_rows_));
  hidden_ = Rows(residual_memory_, num_rows_);
}

// hidden_ = o(attended_)
void Decoder::ProjectAttention(Stream& stream, int layer) {
  const LayerWeights& weights = weights_->layer(layer);
  ops_->Linear(stream,
               {.x = attended_, .weight = &weights.o, .bias = weights.o_bias, .out = hidden_});
  if (config_->sandwich_norms) Norm(stream, hidden_, {}, weights.attention_out_norm);
}

// hidden_ = down(silu(gate(hidden_)) * up(hidden_))
void Decoder::RunMlp(Stream& stream, int layer) {
  const LayerWeights& weights = weights_->layer(layer);
  const Tensor gate_up = Rows(gate_up_, num_rows_);
  const Tensor mlp = Rows(mlp_, num_rows_);
  ops_->GatedLinear(stream, {.x = hidden_,
                             .weight = &weights.gate_up,
                             .bias = weights.gate_up_bias,
                             .activation = config_->activation,
                             .gate_up = gate_up,
                             .out = mlp});
  ops_->Linear(stream,
               {.x = mlp, .weight = &weights.down, .bias = weights.down_bias, .out = hidden_});
  if (config_->sandwich_norms) Norm(stream, hidden_, {}, weights.mlp_out_norm);
}

Tensor Decoder::Logits(Stream& stream, int64_t first_row, int64_t num_rows) {
  Tensor hidden;
  if (logits_indices_ == nullptr) {
    hidden = Rows(hidden_, num_rows, first_row);
  } else {
    hidden = Rows(logit_hidden_, num_rows);
    ops_->GatherRows(stream,
                     {.in = hidden_, .indices = logits_indices_ + first_row, .out = hidden});
  }
  const Tensor logits = Rows(logits_, num_rows);
  ops_->Linear(stream, {.x = hidden, .weight = &weights_->lm_head(), .out = logits});
  if (config_->logit_soft_cap > 0) {
    ops_->SoftCap(stream, {.x = logits, .cap = config_->logit_soft_cap});
  }
  return logits;
}

}  // namespace quire
