// One launch for each operation that needs only its arguments (op_list.h), on a GPU. The arguments
// have been checked; a launch that fails is left for cudaGetLastError. An operation on no rows
// launches nothing. Used by the engine's thread.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/experts.h"
#include "kernels/gated_delta.h"
#include "kernels/op_args.h"
#include "kernels/op_list.h"
#include "kernels/sampling.h"

namespace quire::cuda {

#define QUIRE_OP(name) void Launch##name(const name##Args& args, cudaStream_t stream);
QUIRE_FREE_OPS(QUIRE_OP)
#undef QUIRE_OP

}  // namespace quire::cuda
