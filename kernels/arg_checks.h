// The shapes and dtypes that the operations of kernels/ops.h ask for. A misfit is a programmer's
// error and fails a CHECK. Plain functions; any thread.
#pragma once

#include "kernels/experts.h"
#include "kernels/gated_delta.h"
#include "kernels/op_args.h"
#include "kernels/op_list.h"
#include "kernels/sampling.h"

namespace quire {

#define QUIRE_OP(name) void CheckArgs(const name##Args& args);
QUIRE_OPS(QUIRE_OP)
#undef QUIRE_OP

}  // namespace quire
