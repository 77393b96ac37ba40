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

// Swaps `parts` and `other_parts` of each weight where the checkpoint has only the other form: has
// a tensor of one of its modules, and none of the family's own form.
void ChooseParts(const Checkpoint& checkpoint, WeightPlan* plan);

// INVALID_ARGUMENT with the tensors that are missing (at most 20 by name), with the first one whose
// shape or dtype does not fit, or with those that the plan does not read, but for those of other
// parts (OtherPartOf), a few known ones, and biases that are all 0, whose data alone is read.
absl::Status CheckTensors(const WeightPlan& plan, const Checkpoint& checkpoint);

// A part of a quantized matrix; of a stack of experts, this one's. Errors as in
// QuantizedModule::Find.
absl::StatusOr<QuantizedModule> FindModule(const MatrixPlan& matrix, const WeightPart& part,
                                           const Checkpoint& checkpoint, int64_t expert = 0);

// The first of the names that is there; null where none is.
const Checkpoint::Entry* FindScales(const ScalesPlan& plan, const Checkpoint& checkpoint);

}  // namespace quire
