// The checks that every weight store and the operations with weights make. A misfit that is our own
// mistake fails a CHECK. Plain functions; any thread.
#pragma once

#include "absl/status/status.h"
#include "kernels/weight_store.h"

namespace quire {

// float32, bfloat16 or float16; which of them a device computes in, DeviceInfo says.
bool IsActivation(DType dtype);
void CheckVector(const Tensor& tensor, int64_t size);  // [size] of such a dtype
void CheckWeight(const LinearWeight& weight);
void CheckLinearGroup(const LinearGroup& group);

// Rows come from files: INVALID_ARGUMENT, saying what does not fit.
absl::Status CheckWeightRows(const LinearWeight& weight, int64_t first_row, const Tensor& rows);
// Of ours, but where the rows go.
absl::Status CheckQuantizedRows(const LinearWeight& weight, int64_t first_row,
                                const QuantizedRows& rows);

}  // namespace quire
