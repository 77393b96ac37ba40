#include "engine/model/blocks/per_layer_input.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

// At most this many tokens have their rows of the embedding in memory at once. The rows of a long
// prompt would take as much memory as the inputs themselves.
constexpr int64_t kTokensAtOnce = 1024;

// The size of one token's inputs of all layers.
int64_t RowSize(const ModelConfig& config) {
  return static_cast<int64_t>(config.layers.size()) * config.per_layer_input.size;
}

}  // namespace

void PlanWeights(const ModelConfig& config, PerLayerInputWeights* weights, ModulePlanner& planner) {
  const PerLayerInputConfig& input = config.per_layer_input;
  planner.Embedding(&weights->embedding, RowSize(config),
                    {"embed_tokens_per_layer", input.vocab_size});
  planner.Linear(&weights->projection, config.hidden_size,
                 {{"per_layer_model_projection", RowSize(config)}}, {});
  planner.Norm(&weights->norm, "per_layer_projection_norm", input.size);
}

void PlanWeights(const ModelConfig& config, PerLayerInputGateWeights* weights,
                 ModulePlanner& planner) {
  const int64_t size = config.per_layer_input.size;
  planner.Linear(&weights->gate, config.hidden_size, {{"per_layer_input_gate", size}}, {});
  planner.Linear(&weights->projection, size, {{"per_layer_projection", config.hidden_size}}, {});
  planner.Norm(&weights->norm, "post_per_layer_input_norm", config.hidden_size);
}

void PerLayerInput::Carve(MemoryCarver* carver) {
  const int64_t size = context_.config->per_layer_input.size;
  if (size == 0) return;
  const int64_t num_tokens = context_.limits.max_num_batched_tokens;
  const int64_t row_size = RowSize(*context_.config);
  inputs_ = carver->TakeTensor(context_.dtype, {num_tokens, row_size});
  room_ = carver->TakeTensor(context_.dtype, {std::min(num_tokens, kTokensAtOnce), row_size});
  gate_ = carver->TakeTensor(context_.dtype, {num_tokens, size});
  kept_ = carver->TakeTensor(context_.dtype, {num_tokens, size});
}

void PerLayerInput::Prepare(Stream& stream, const PerLayerInputWeights& weights,
                            const Tokens& tokens, const Tensor& embedded) const {
  const ModelConfig& config = *context_.config;
  const int64_t num_tokens = embedded.dim(0), size = config.per_layer_input.size;
  const auto num_layers = static_cast<int64_t>(config.layers.size());
  const Tensor inputs = Rows(inputs_, num_tokens);
  context_.ops->Linear(stream, {.x = embedded, .weight = &weights.projection, .out = inputs});
  // The projection is divided by sqrt(hidden_size) before it is normed: only eps sees that.
  const Tensor by_layer = Begin(inputs_, {num_tokens * num_layers, size});
  context_.ops->RmsNorm(stream, {.x = by_layer,
                                 .weight = weights.norm,
                                 .eps = config.norm_eps * static_cast<float>(config.hidden_size),
                                 .out = by_layer});
  const float scale = Rounded(std::sqrt(static_cast<float>(size)), context_.dtype);
  for (int64_t first = 0; first < num_tokens; first += kTokensAtOnce) {
    const Tensor rows = Rows(room_, std::min(kTokensAtOnce, num_tokens - first));
    context_.ops->Embedding(stream, {.input_ids = tokens.input_ids + first,
                                     .row_last_token = tokens.row_last_token,
                                     .table = &weights.embedding,
                                     .out = rows});
    context_.ops->Scale(stream, {.x = rows, .factor = scale});
    context_.ops->Add(stream, {.x = Rows(inputs, rows.dim(0), first), .y = rows});
  }
  context_.ops->Scale(stream, {.x = inputs, .factor = static_cast<float>(std::sqrt(0.5))});
}

Tensor PerLayerInput::InputOf(int layer, int64_t num_tokens) const {
  const int64_t size = context_.config->per_layer_input.size;
  return Columns(Rows(inputs_, num_tokens), layer * size, size);
}

Tensor PerLayerInput::KeepRows(Stream& stream, const Tensor& input, const int32_t* indices,
                               int64_t num_rows) const {
  const Tensor kept = Rows(kept_, num_rows);
  context_.ops->GatherRows(stream, {.in = input, .indices = indices, .out = kept});
  return kept;
}

void PerLayerInput::Run(Stream& stream, const PerLayerInputGateWeights& weights, const Tensor& x,
                        const Tensor& input, const Tensor& out) const {
  const Tensor gate = Rows(gate_, x.dim(0));
  context_.ops->Linear(stream, {.x = x, .weight = &weights.gate, .out = gate});
  context_.ops->GatedActivation(
      stream, {.gate = gate, .up = input, .activation = context_.config->activation, .out = gate});
  context_.ops->Linear(stream, {.x = gate, .weight = &weights.projection, .out = out});
  context_.ops->RmsNorm(
      stream, {.x = out, .weight = weights.norm, .eps = context_.config->norm_eps, .out = out});
}

}  // namespace quire
