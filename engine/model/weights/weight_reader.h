// Reading the tensors of a WeightPlan, which were checked (tensor_check.h), from a Checkpoint. Used
// once, while loading.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/weights/quantized_module.h"
#include "engine/model/weights/weight_plan.h"
#include "kernels/weight_store.h"

namespace quire {

// The common order of the parts of a quantized matrix; `even` is false if they have none.
absl::StatusOr<ColumnOrder> ReadOrder(const MatrixPlan& matrix, const Checkpoint& checkpoint);

// Reads the parts of a vector, converted to float32, to `out` [plan.size].
absl::Status ReadVector(const VectorPlan& plan, const Checkpoint& checkpoint, float* out);

// Reads the scales, [plan.size], to `out`. INVALID_ARGUMENT, naming the tensor, if a scale is not a
// finite number above 0.
absl::Status ReadScales(const ScalesPlan& plan, const Checkpoint& checkpoint, float* out);

// Reads all matrices into their weights with `num_threads` threads, including this one. It reads
// quantized modules as codes, or as the codes' values if the weight's format is kFloat. It reads
// floats as codes if the weight's format is not kFloat; the format is then kFloat8. Returns when
// all are done. `progress` may be null. INVALID_ARGUMENT as in QuantizedModule::Read, and for
// floats that cannot be quantized.
absl::Status ReadMatrices(const WeightPlan& plan, const Checkpoint& checkpoint, int num_threads,
                          WeightStore& store, Progress* progress);

}  // namespace quire
