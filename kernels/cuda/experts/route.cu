#include "kernels/base/check.h"
#include "kernels/cuda/runtime/free_ops.h"

namespace quire::cuda {

void LaunchRoute(const RouteArgs&, cudaStream_t) { CHECK(false) << "not there yet"; }

}  // namespace quire::cuda
