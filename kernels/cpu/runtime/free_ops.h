// One function for each operation that needs only its arguments (op_list.h), on the CPU. Rows are
// shared among the pool's threads. Called on the stream's thread.
#pragma once

#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/experts.h"
#include "kernels/gated_delta.h"
#include "kernels/op_args.h"
#include "kernels/op_list.h"
#include "kernels/sampling.h"

namespace quire::cpu {

#define QUIRE_OP(name) void name(const name##Args& args, ThreadPool& pool);
QUIRE_FREE_OPS(QUIRE_OP)
#undef QUIRE_OP

}  // namespace quire::cpu
