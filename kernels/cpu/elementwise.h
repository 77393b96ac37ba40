// The row-wise operations of kernels/ops.h on the CPU: normalisation, activation, row gathering and
// the block-table update. A row's result never depends on the other rows. Called on the stream's
// thread; small calls run inline, because waking the pool costs more than they take.
#pragma once

#include "kernels/cpu/thread_pool.h"
#include "kernels/op_args.h"

namespace quire::cpu {

// The residual sum is rounded to the model's dtype before its norm is taken, as stored.
void RmsNorm(const RmsNormArgs& args, ThreadPool& pool);
void Scale(const ScaleArgs& args, ThreadPool& pool);
void SoftCap(const SoftCapArgs& args, ThreadPool& pool);
void GatedActivation(const GatedActivationArgs& args, ThreadPool& pool);
void GatherRows(const GatherRowsArgs& args, ThreadPool& pool);
void UpdateBlockTables(const UpdateBlockTablesArgs& args, ThreadPool& pool);

}  // namespace quire::cpu
