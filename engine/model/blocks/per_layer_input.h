// PerLayerInput (Gemma 4's per-layer embeddings): each layer gets an extra input for each token,
// from the layer's own embedding and from a projection of the model's embedding. It adds the part
// of this input that a gate lets through.
#pragma once

#include "engine/model/blocks/block.h"
#include "engine/model/weights/memory_carver.h"
#include "engine/model/weights/weight_plan.h"

namespace quire {

// The model's weights. The inputs of all layers lie in one row.
struct PerLayerInputWeights {
  LinearWeight embedding;   // [per-layer vocab_size, num_layers * size]; only rows are read
  LinearWeight projection;  // [num_layers * size, hidden_size]
  Tensor norm;              // [size]: for each layer's part of the projection
};

// A layer's weights.
struct PerLayerInputGateWeights {
  LinearWeight gate;        // [size, hidden_size]
  LinearWeight projection;  // [hidden_size, size]
  Tensor norm;              // [hidden_size]: for the result, before it is added
};

void PlanWeights(const ModelConfig& config, PerLayerInputWeights* weights, ModulePlanner& planner);
void PlanWeights(const ModelConfig& config, PerLayerInputGateWeights* weights,
                 ModulePlanner& planner);

class PerLayerInput {
 public:
  explicit PerLayerInput(const BlockContext& context) : context_(context) {}

  // Takes the activations' memory: nothing if the model has no such inputs.
  void Carve(MemoryCarver* carver);

  // A step's tokens: [num_tokens] ids as EmbeddingArgs has them.
  struct Tokens {
    const int32_t* input_ids;
    const int32_t* row_last_token;
  };
  // Computes the inputs of all layers, which stay until the next call. `embedded` has the tokens'
  // embeddings as the first layer gets them, [num_tokens, hidden_size].
  void Prepare(Stream& stream, const PerLayerInputWeights& weights, const Tokens& tokens,
               const Tensor& embedded) const;

  // A layer's inputs for the first num_tokens tokens, [num_tokens, size].
  Tensor InputOf(int layer, int64_t num_tokens) const;
  // These rows of a layer's inputs, valid until the next call.
  Tensor KeepRows(Stream& stream, const Tensor& input, const int32_t* indices,
                  int64_t num_rows) const;

  // out = norm(projection(activation(gate(x)) * input)), like x [num_rows, hidden_size]; x stays as
  // it is.
  void Run(Stream& stream, const PerLayerInputGateWeights& weights, const Tensor& x,
           const Tensor& input, const Tensor& out) const;

 private:
  BlockContext context_;
  Tensor inputs_;  // [max_num_batched_tokens, num_layers * size]
  Tensor room_;    // [kTokensAtOnce at most, num_layers * size]: rows of the embedding
  Tensor gate_;    // [max_num_batched_tokens, size]
  Tensor kept_;    // the same
};

}  // namespace quire
