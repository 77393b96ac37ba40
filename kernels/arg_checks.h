// The shapes and dtypes that the operations of kernels/ops.h ask for. A misfit is a programmer's
// error and fails a CHECK. Plain functions; any thread.
#pragma once

#include "kernels/op_args.h"
#include "kernels/sampling.h"

namespace quire {

void CheckArgs(const EmbeddingArgs& args);
void CheckArgs(const RmsNormArgs& args);
void CheckArgs(const LinearArgs& args);
void CheckArgs(const RopeAndStoreKvArgs& args);
void CheckArgs(const GatedActivationArgs& args);
void CheckArgs(const GatedLinearArgs& args);
void CheckArgs(const ScaleArgs& args);
void CheckArgs(const SoftCapArgs& args);
void CheckArgs(const GatherRowsArgs& args);
void CheckArgs(const UpdateBlockTablesArgs& args);
void CheckArgs(const ResetTokenCountsArgs& args);
void CheckArgs(const SampleArgs& args);
void CheckArgs(const MergeStateArgs& args);
void CheckArgs(const MergeStatesArgs& args);

}  // namespace quire
