// WeightPlan: which tensors of a checkpoint make which weights of the model, with their shapes. The
// only place that knows Hugging Face's tensor names. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/weights.h"

namespace quire {

// A tensor of the checkpoint, [num_rows, in_features] in a matrix and [num_rows] in a vector.
struct WeightPart {
  std::string name;
  int64_t num_rows;
};

// A weight made of the rows of its parts, one after the other.
struct MatrixPlan {
  LinearWeight* weight;  // out_features and in_features are set
  std::vector<WeightPart> parts;
};

struct VectorPlan {
  Tensor* tensor;  // receives a vector of `size` elements
  int64_t size;
  std::vector<WeightPart> parts;
  float dummy_value;  // of every element when there is no checkpoint
  float offset;       // added to every element of the checkpoint's
};

struct WeightPlan {
  std::vector<MatrixPlan> matrices;
  std::vector<VectorPlan> vectors;
};

// Appends one layer, or what surrounds the layers, to the plan, which keeps the pointers.
void PlanLayer(const ModelConfig& config, int layer, LayerWeights* weights, WeightPlan* plan);
void PlanEnds(const ModelConfig& config, LinearWeight* embedding, LinearWeight* lm_head,
              Tensor* final_norm, WeightPlan* plan);

}  // namespace quire
