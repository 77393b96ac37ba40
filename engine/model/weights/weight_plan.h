// WeightPlan: which tensors of a checkpoint make which weights of the model, with their shapes. The
// model's blocks (blocks/) and model_weights.cc make it; only they know tensors' names. Code that
// loads, measures or writes a checkpoint reads it. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/checkpoint/text_part.h"
#include "engine/model/quantization/weight_scheme.h"
#include "kernels/linear_weight.h"

namespace quire {

// A tensor of the checkpoint. In a vector it is [num_rows]. In a matrix it is [num_rows,
// in_features], or the tensors of its module in a quantized checkpoint.
struct WeightPart {
  std::string name;  // "model.layers.3.self_attn.q_proj.weight"
  int64_t num_rows;
  // For a weight with several experts: the expert whose rows they are; or the number of experts in
  // the tensor, as its first dimension, with num_rows rows for each.
  int64_t expert = 0;
  int64_t num_experts = 0;
  // The tensor is [in_features, num_rows], if it is of floats.
  bool transposed = false;
  // How many rows of each kind take turns in the tensor, while the weight has all rows of the first
  // kind, then all rows of the next: {1, 1} means a gate, its up, the next gate. Empty: the tensor
  // has the rows in the weight's order.
  std::vector<int64_t> turns = {};
};

// The module of a matrix's part: its name without ".weight".
std::string ModuleOf(const WeightPart& part);
// The shape of the tensor, if it is of floats.
std::vector<int64_t> ShapeOf(const WeightPart& part, int64_t in_features);
// The row at which each part begins in the weight, or in its expert's weight.
std::vector<int64_t> FirstRows(const std::vector<WeightPart>& parts);

enum class MatrixRole : uint8_t {
  kLinear,     // of a layer
  kGates,      // of a layer, a few rows; kept as the checkpoint has it
  kHead,       // makes logits; kept as the checkpoint has it
  kEmbedding,  // no linear module; never quantized
};

// A weight made of the rows of its parts, one after the other.
struct MatrixPlan {
  LinearWeight* weight;  // out_features and in_features are set
  std::vector<WeightPart> parts;
  // Tensors that a checkpoint may have in place of `parts`, for the same rows: a fused tensor, or
  // the tensors that are fused in the only part. Empty if there is no other form.
  std::vector<WeightPart> other_parts = {};
  const Tensor* bias = nullptr;  // bias of a linear operation, if it has one
  bool gated = false;            // by GatedLinear
  bool normed = false;           // x comes from RmsNorm
  bool float32_out = false;      // else of the activations' dtype
  bool routes = false;           // its rows score a token's experts
  int64_t top_k = 0;             // experts of a token; 0: there are no experts
  MatrixRole role = MatrixRole::kLinear;
  WeightScheme scheme = {};  // the parts' scheme in the checkpoint; SetSchemes sets it
};

// FillWeightArgs::tensor_id for a plan's matrix, or for one of its experts, if there is no
// checkpoint.
inline uint64_t DummyTensorId(uint64_t matrix, uint64_t expert) { return expert << 32 | matrix; }

struct VectorPlan {
  Tensor* tensor;  // receives a vector of `size` elements
  int64_t size;
  std::vector<WeightPart> parts;
  float dummy_value;                         // of every element when there is no checkpoint
  float offset;                              // added to every element of the checkpoint's
  std::vector<WeightPart> other_parts = {};  // as in MatrixPlan
  std::vector<int64_t> shape = {};           // of its one part in a checkpoint; empty: [size]
  float factor = 1;                          // multiplies every element of the checkpoint's
};

// Scales that a checkpoint may have, one for all or one each; if it has none, all are 1.
struct ScalesPlan {
  Tensor* tensor;  // receives `size` elements
  int64_t size;
  std::vector<std::string> names;  // the quantizers' names; the first one in the checkpoint counts
};

struct WeightPlan {
  TextPart part;  // the part that has these tensors
  std::vector<MatrixPlan> matrices;
  std::vector<VectorPlan> vectors;
  std::vector<ScalesPlan> scales;
  std::vector<std::string> spare_modules;   // a checkpoint may have their tensors; none is read
  std::vector<std::string> spare_prefixes;  // the same for names that begin so: "model.layers.46."
};

// Appends modules of a checkpoint whose names begin alike to a plan, which keeps the pointers.
class ModulePlanner {
 public:
  // A module and the rows of its weight.
  struct Module {
    absl::string_view name;  // after the prefix
    int64_t num_rows;
  };

  // How the authors of a model family write its checkpoints.
  struct Conventions {
    float norm_offset = 0;  // added to the weights of norms
    bool fused = false;     // modules that can be fused are fused
  };

  // `prefix`: "model.layers.3.".
  ModulePlanner(std::string prefix, const Conventions& conventions, WeightPlan* plan)
      : prefix_(std::move(prefix)), conventions_(conventions), plan_(plan) {}

  struct LinearTraits {
    Tensor* bias = nullptr;  // receives the modules' biases, if they have some
    // The module that has all their rows in a checkpoint that fuses them. Empty: no checkpoint
    // does.
    absl::string_view fused = "";
    std::vector<int64_t> fused_turns = {};  // WeightPart::turns of it
    bool gated = false;                     // the modules are gates and ups
    bool normed = false;                    // x comes from RmsNorm
    bool float32_out = false;
    bool routes = false;  // the rows score experts
    MatrixRole role = MatrixRole::kLinear;
  };
  // One matrix of the modules' rows.
  void Linear(LinearWeight* weight, int64_t in_features, const std::vector<Module>& modules,
              const LinearTraits& traits);
  struct ExpertTraits {
    int64_t num_experts = 0;
    int64_t top_k = 0;                // of a token
    absl::string_view name = "";      // "mlp.experts"
    absl::string_view stacked = "";   // the tensor that has all experts' rows: "gate_up_proj"
    std::vector<int64_t> turns = {};  // its WeightPart::turns, if modules are empty
    Tensor* bias = nullptr;           // receives the contents of the tensor with "_bias"
    bool gated = false;
  };
  // As many matrices as there are experts, from the modules' rows, or from the stacked tensor's
  // rows if a checkpoint has that tensor. Without modules there is only the stacked tensor, whose
  // floats are transposed.
  void Experts(LinearWeight* weight, int64_t out_features, int64_t in_features,
               const std::vector<Module>& modules, const ExpertTraits& traits);
  void Embedding(LinearWeight* weight, int64_t in_features, const Module& module);
  void Head(LinearWeight* weight, int64_t in_features, const Module& module);
  void Norm(Tensor* tensor, absl::string_view name, int64_t size);
  // A vector that is a separate tensor, not part of a module with weight and bias. `shape` is the
  // tensor's shape, if that is not [size]; `factor` multiplies the checkpoint's values.
  void Parameter(Tensor* tensor, absl::string_view name, int64_t size, float dummy_value = 0,
                 std::vector<int64_t> shape = {}, float factor = 1);
  void Scales(Tensor* tensor, int64_t size, const std::vector<absl::string_view>& names);
  // A module that some checkpoints have, although the model does not use it.
  void Spare(absl::string_view name);

 private:
  void Vector(Tensor* tensor, std::vector<WeightPart> parts, float dummy_value, float offset);
  std::vector<WeightPart> Named(absl::string_view kind, const std::vector<Module>& modules) const;

  const std::string prefix_;
  const Conventions conventions_;
  WeightPlan* const plan_;
};

}  // namespace quire
