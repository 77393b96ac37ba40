#include "engine/model/weights/tensor_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/json/json_reader.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

constexpr size_t kMaxNamesShown = 20;

std::string ListNames(std::vector<std::string> names) {
  const size_t num_names = names.size();
  std::sort(names.begin(), names.end());
  names.resize(std::min(num_names, kMaxNamesShown));
  std::string list = absl::StrJoin(names, ", ");
  if (num_names > kMaxNamesShown) {
    absl::StrAppend(&list, " and ", num_names - kMaxNamesShown, " more");
  }
  return list;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Calls fn(part, shape that config.json implies) for every tensor of the plan that is not of a
// quantized module.
template <typename Fn>
void ForEachPart(const WeightPlan& plan, Fn fn) {
  for (const MatrixPlan& matrix : plan.matrices) {
    if (matrix.scheme.quantized()) continue;
    for (const WeightPart& part : matrix.parts) {
      fn(part, ShapeOf(part, matrix.weight->in_features));
    }
  }
  for (const VectorPlan& vector : plan.vectors) {
    for (const WeightPart& part : vector.parts) {
      fn(part, vector.shape.empty() ? std::vector<int64_t>{part.num_rows} : vector.shape);
    }
  }
}

// That the tensors of quantized modules are there; adds their names to `used`.
absl::Status CheckQuantized(const WeightPlan& plan, const Checkpoint& checkpoint,
                            absl::flat_hash_set<std::string>* used) {
  for (const MatrixPlan& matrix : plan.matrices) {
    if (!matrix.scheme.quantized()) continue;
    for (const WeightPart& part : matrix.parts) {
      ASSIGN_OR_RETURN(const QuantizedModule module, FindModule(matrix, part, checkpoint));
      for (std::string& name : module.TensorNames()) used->insert(std::move(name));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFits(const Checkpoint::Entry& entry, const std::vector<int64_t>& expected_shape) {
  const SafetensorsTensor& tensor = *entry.tensor;
  if (tensor.shape != expected_shape) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry.file->name(), ": tensor ", tensor.name, " has shape ",
                     ShapeText(tensor.shape), ", but config.json implies ",
                     ShapeText(expected_shape), "; the two files do not belong together"));
  }
  if (!tensor.dtype) {
    return absl::InvalidArgumentError(absl::StrCat(entry.file->name(), ": tensor ", tensor.name,
                                                   " has dtype ", tensor.dtype_name,
                                                   "; supported are BF16, F16 and F32"));
  }
  return absl::OkStatus();
}

// Tensors that checkpoints carry although their models can do without them: a copy of the embedding
// that is tied to it, frequencies that follow from config.json, and scales of what is not quantized
// here: queries and probabilities.
bool IsKnownSurplus(const TextPart& part, absl::string_view name) {
  return name == absl::StrCat(part.head, ".weight") ||
         absl::EndsWith(name, "rotary_emb.inv_freq") || absl::EndsWith(name, ".q_scale") ||
         absl::EndsWith(name, ".prob_scale");
}

int64_t NumElements(const SafetensorsTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape) elements *= extent;
  return elements;
}

// Scales of any rank: [], [1], [num_kv_heads], [num_kv_heads, 1, 1].
absl::Status CheckFits(const Checkpoint::Entry& entry, const ScalesPlan& plan) {
  const int64_t elements = NumElements(*entry.tensor);
  if (elements == plan.size) return CheckFits(entry, entry.tensor->shape);
  return CheckFits(entry, elements == 1 ? entry.tensor->shape : std::vector<int64_t>{plan.size});
}

// "model.norm" of "model.norm.weight".
absl::string_view OwnerOf(absl::string_view tensor) {
  return tensor.substr(0, std::min(tensor.rfind('.'), tensor.size()));
}

// The modules that the checkpoint has tensors of. Scales of the KV cache do not count: they may be
// named after a projection although it is fused.
absl::flat_hash_set<absl::string_view> StoredModules(const WeightPlan& plan,
                                                     const Checkpoint& checkpoint) {
  absl::flat_hash_set<absl::string_view> scales;
  for (const ScalesPlan& one : plan.scales) scales.insert(one.names.begin(), one.names.end());
  absl::flat_hash_set<absl::string_view> modules;
  for (const auto& [name, entry] : checkpoint.entries()) {
    if (!scales.contains(name) && !IsKnownSurplus(plan.part, name)) modules.insert(OwnerOf(name));
  }
  return modules;
}

// What a plan does not read.
class Surplus {
 public:
  explicit Surplus(const WeightPlan& plan)
      : part_(plan.part),
        spare_(plan.spare_modules.begin(), plan.spare_modules.end()),
        spare_prefixes_(plan.spare_prefixes) {
    for (const MatrixPlan& matrix : plan.matrices) {
      has_head_ = has_head_ || matrix.role == MatrixRole::kHead;
      for (const WeightPart& part : matrix.parts) num_rows_[ModuleOf(part)] = part.num_rows;
    }
  }

  absl::Status Add(const std::string& name, const Checkpoint::Entry& entry) {
    if (IsKnownSurplus(part_, name) || IsSpare(name)) return absl::OkStatus();
    if (!has_head_ && absl::StartsWith(name, absl::StrCat(part_.head, "."))) {
      of_tied_head_.push_back(Shown(name));
      return absl::OkStatus();
    }
    if (!IsBias(name, *entry.tensor)) {
      unread_.push_back(Shown(name));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const bool is_zero, IsZero(entry));
    if (!is_zero) biases_.push_back(Shown(name));
    return absl::OkStatus();
  }

  // Of whatever else no layer reads: config.json is not what these weights were made with, and the
  // model would be another one.
  absl::Status Check() const {
    if (!unread_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the checkpoint has ", unread_.size(),
          " tensors that no layer of config.json's model reads: ", ListNames(unread_),
          "; the two do not belong together (see num_hidden_layers): download the model again"));
    }
    if (!of_tied_head_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the checkpoint has a head of its own (", ListNames(of_tied_head_),
          "), but config.json says that the head is the embedding (tie_word_embeddings): set it to "
          "false, or quantize the model again without its head"));
    }
    if (biases_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "the checkpoint has ", biases_.size(), " biases that are not 0 and that config.json's ",
        "model does not add: ", ListNames(biases_),
        "; the two do not belong together (see attention_bias): download the model again"));
  }

 private:
  bool IsSpare(absl::string_view name) const {
    return spare_.contains(OwnerOf(name)) ||
           std::any_of(spare_prefixes_.begin(), spare_prefixes_.end(),
                       [&](const std::string& prefix) { return absl::StartsWith(name, prefix); });
  }

  // Whether this is a bias of a module that has no bias in the model. Quantizers from before 2024
  // wrote zeros as the bias of every module.
  bool IsBias(absl::string_view name, const SafetensorsTensor& tensor) const {
    if (!absl::ConsumeSuffix(&name, ".bias") || !tensor.dtype) return false;
    const auto it = num_rows_.find(name);
    return it != num_rows_.end() && tensor.shape == std::vector<int64_t>{it->second};
  }

  static absl::StatusOr<bool> IsZero(const Checkpoint::Entry& entry) {
    const SafetensorsTensor& tensor = *entry.tensor;
    std::vector<char> bytes(tensor.end - tensor.begin);
    RETURN_IF_ERROR(entry.file->Read(tensor, 0, tensor.end - tensor.begin, bytes.data()));
    return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
  }

  const TextPart& part_;
  const absl::flat_hash_set<std::string> spare_;
  const std::vector<std::string>& spare_prefixes_;
  bool has_head_ = false;                               // else it is the embedding
  absl::flat_hash_map<std::string, int64_t> num_rows_;  // by module
  std::vector<std::string> of_tied_head_;
  std::vector<std::string> unread_;
  std::vector<std::string> biases_;
};

}  // namespace

void ChooseParts(const Checkpoint& checkpoint, WeightPlan* plan) {
  const absl::flat_hash_set<absl::string_view> modules = StoredModules(*plan, checkpoint);
  const auto has_some = [&](const std::vector<WeightPart>& parts) {
    return std::any_of(parts.begin(), parts.end(), [&](const WeightPart& part) {
      return modules.contains(OwnerOf(part.name));
    });
  };
  const auto choose = [&](auto& planned) {
    if (has_some(planned.parts) || !has_some(planned.other_parts)) return;
    std::swap(planned.parts, planned.other_parts);
  };
  for (MatrixPlan& matrix : plan->matrices) choose(matrix);
  for (VectorPlan& vector : plan->vectors) choose(vector);
}

absl::StatusOr<QuantizedModule> FindModule(const MatrixPlan& matrix, const WeightPart& part,
                                           const Checkpoint& checkpoint, int64_t expert) {
  return QuantizedModule::Find(matrix.scheme,
                               {.rows = part.num_rows,
                                .columns = matrix.weight->in_features,
                                .num_experts = part.num_experts},
                               ModuleOf(part), checkpoint, expert);
}

const Checkpoint::Entry* FindScales(const ScalesPlan& plan, const Checkpoint& checkpoint) {
  for (const std::string& name : plan.names) {
    if (const Checkpoint::Entry* entry = checkpoint.Find(name)) return entry;
  }
  return nullptr;
}

absl::Status CheckTensors(const WeightPlan& plan, const Checkpoint& checkpoint) {
  std::vector<std::string> missing;
  absl::flat_hash_set<std::string> used;
  RETURN_IF_ERROR(CheckQuantized(plan, checkpoint, &used));
  absl::Status status;
  ForEachPart(plan, [&](const WeightPart& part, const std::vector<int64_t>& shape) {
    used.insert(part.name);
    const Checkpoint::Entry* entry = checkpoint.Find(part.name);
    if (entry == nullptr) {
      missing.push_back(part.name);
    } else {
      status.Update(CheckFits(*entry, shape));
    }
  });
  if (!missing.empty()) {
    const size_t num_missing = missing.size();
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint lacks ", num_missing, " tensors that config.json implies: ",
                     ListNames(std::move(missing)), "; copy or download the model again"));
  }
  for (const ScalesPlan& scales : plan.scales) {
    used.insert(scales.names.begin(), scales.names.end());
    const Checkpoint::Entry* entry = FindScales(scales, checkpoint);
    if (entry != nullptr) status.Update(CheckFits(*entry, scales));
  }
  RETURN_IF_ERROR(status);
  Surplus surplus(plan);
  for (const auto& [name, entry] : checkpoint.entries()) {
    if (used.contains(name) || !OtherPartOf(name).empty()) continue;
    RETURN_IF_ERROR(surplus.Add(name, entry));
  }
  return surplus.Check();
}

}  // namespace quire
