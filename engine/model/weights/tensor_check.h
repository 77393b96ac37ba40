// The tensors of a WeightPlan in a Checkpoint: found and checked, before their data is read. Plain
// functions; any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/weights/quantized_module.h"
#include "engine/model/weights/weight_plan.h"

namespace quire {

// Swaps `parts` and `other_parts` of each weight if the checkpoint has only the other form: it has
// a tensor of one of that form's modules, and none of the family's own form.
void ChooseParts(const Checkpoint& checkpoint, WeightPlan* plan);

// INVALID_ARGUMENT with the missing tensors (at most 20 by name), with the first tensor whose shape
// or dtype does not fit, or with the tensors that the plan does not read. The plan may leave unread
// tensors of other parts (OtherPartOf), a few known tensors, and biases that are all 0. Only the
// data of such biases is read.
absl::Status CheckTensors(const WeightPlan& plan, const Checkpoint& checkpoint);

// Finds the module of a part of a quantized matrix; in a stack of experts, the module of this
// expert. Errors as in QuantizedModule::Find.
absl::StatusOr<QuantizedModule> FindModule(const MatrixPlan& matrix, const WeightPart& part,
                                           const Checkpoint& checkpoint, int64_t expert = 0);

// The first of the names that the checkpoint has; null if it has none.
const Checkpoint::Entry* FindScales(const ScalesPlan& plan, const Checkpoint& checkpoint);

}  // namespace quire
