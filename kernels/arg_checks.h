// What every backend checks before it enqueues an operation: the shapes and dtypes of its
// arguments. A misfit is a programmer's error and fails a CHECK. Plain functions; any thread.
#pragma once

#include "absl/status/status.h"
#include "kernels/op_args.h"
#include "kernels/ops.h"
#include "kernels/sampling.h"

namespace quire {

void CheckWeight(const LinearWeight& weight);
void CheckProduct(const LinearProduct& product);
void CheckArgs(const EmbeddingArgs& args);
void CheckArgs(const RmsNormArgs& args);
void CheckArgs(const LinearArgs& args);
void CheckArgs(const RopeAndStoreKvArgs& args);
void CheckArgs(const GatedActivationArgs& args);
void CheckArgs(const ScaleArgs& args);
void CheckArgs(const SoftCapArgs& args);
void CheckArgs(const GatherRowsArgs& args);
void CheckArgs(const ResetTokenCountsArgs& args);
void CheckArgs(const SampleArgs& args);

// Rows come from files: INVALID_ARGUMENT, saying what does not fit.
absl::Status CheckWeightRows(const LinearWeight& weight, int64_t first_row, const Tensor& rows);

}  // namespace quire
