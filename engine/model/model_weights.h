// ModelWeights: a model as a list of layers between an embedding and an LM head, each layer has the
// weights of its attention and of its MLP. PlanWeights says which tensors of a checkpoint these
// weights are. Plain values.
#pragma once

#include <vector>

#include "engine/checkpoint/text_part.h"
#include "engine/model/blocks/gated_delta_net.h"
#include "engine/model/blocks/gated_mlp.h"
#include "engine/model/blocks/gqa_attention.h"
#include "engine/model/blocks/per_layer_input.h"
#include "engine/model/blocks/routed_mlp.h"
#include "engine/model/blocks/side_experts.h"
#include "engine/model/config/model_config.h"
#include "engine/model/weights/weight_plan.h"

namespace quire {

// A layer's weights, with a member for each kind of attention and MLP. Only the members for the
// layer's own kinds are set, and only the norms that its BlockOrder has.
struct LayerWeights {
  Tensor input_norm;  // [hidden_size] or empty: before attention, perhaps also before the MLP
  GqaWeights gqa;
  GatedDeltaWeights delta;
  Tensor attention_out_norm;  // [hidden_size] or empty: of what attention adds
  Tensor mlp_norm;            // [hidden_size] or empty: before the MLP
  GatedMlpWeights gated_mlp;
  RoutedMlpWeights routed_mlp;
  SideExpertsWeights side_experts;
  Tensor mlp_out_norm;                       // [hidden_size] or empty: of what the MLP adds
  PerLayerInputGateWeights per_layer_input;  // set where the model has such inputs
  Tensor scalar;                             // [1] or empty: multiplies the layer's result
};

struct ModelWeights {
  LinearWeight embedding;                // [vocab_size, hidden_size]
  LinearWeight lm_head;                  // the same; not planned if it is tied to the embedding
  Tensor final_norm;                     // [hidden_size]
  PerLayerInputWeights per_layer_input;  // set where the model has such inputs
  std::vector<LayerWeights> layers;
};

// Sizes `weights` and says from which tensors of the text part they are made. The plan points into
// them. The weights outside the layers come first, then those of each layer in turn.
WeightPlan PlanWeights(const ModelConfig& config, const TextPart& part, ModelWeights* weights);

}  // namespace quire
