#include "engine/model/quantization/module_tensors.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

std::string ShapeOf(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::string ShapesOf(const std::vector<std::vector<int64_t>>& shapes) {
  return absl::StrJoin(shapes, " or ", [](std::string* out, const std::vector<int64_t>& shape) {
    absl::StrAppend(out, ShapeOf(shape));
  });
}

template <typename List, typename Value>
bool IsAmong(const List& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

absl::Status CheckTensor(const StoredTensor& stored, const Checkpoint::Entry& entry,
                         const WeightScheme& scheme) {
  const SafetensorsTensor& tensor = *entry.tensor;
  const auto error = [&](absl::string_view what, absl::string_view found,
                         absl::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        entry.file == nullptr ? "" : absl::StrCat(entry.file->name(), ": "), "tensor ", tensor.name,
        " has ", what, " ", found, ", but its module (", Describe(scheme), ") implies ", expected,
        "; the weights and their configuration do not belong together"));
  };
  if (!IsAmong(stored.dtypes, tensor.dtype_name)) {
    return error("dtype", tensor.dtype_name, absl::StrJoin(stored.dtypes, " or "));
  }
  if (!IsAmong(stored.shapes, tensor.shape)) {
    return error("shape", ShapeOf(tensor.shape), ShapesOf(stored.shapes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModuleTensors> FindModuleTensors(const WeightScheme& scheme,
                                                const ModuleShape& shape, absl::string_view module,
                                                FindTensor find) {
  RETURN_IF_ERROR(CheckFits(scheme, shape, module));
  ModuleTensors tensors = {};
  for (const StoredTensor& stored : StoredTensors(scheme, shape)) {
    const Checkpoint::Entry* entry = nullptr;
    for (const absl::string_view suffix : stored.suffixes) {
      if (entry == nullptr) entry = find(absl::StrCat(module, suffix));
    }
    if (entry == nullptr) {
      if (stored.optional) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the checkpoint lacks the tensor ", module, absl::StrJoin(stored.suffixes, " or "),
          ", which its module (", Describe(scheme),
          ") implies: copy or download the model again, or see its quantization_config"));
    }
    RETURN_IF_ERROR(CheckTensor(stored, *entry, scheme));
    tensors[static_cast<size_t>(stored.plane)] = entry;
  }
  return tensors;
}

absl::StatusOr<ModuleTensors> FindModuleTensors(const WeightScheme& scheme,
                                                const ModuleShape& shape, absl::string_view module,
                                                const Checkpoint& checkpoint) {
  return FindModuleTensors(scheme, shape, module,
                           [&](absl::string_view name) { return checkpoint.Find(name); });
}

}  // namespace quire
