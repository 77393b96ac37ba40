// TuneGemm: measures how Gemm best computes a model's gemms, for every RowBucket that may occur, on
// the model's own weights in turn (so that they come from memory, as they do in a step) and random
// x. Choices come from the tuning cache if it has them, or else from known_gemms.h. The other gemms
// are measured, few rows first, until the time is spent, and the results are written to the cache.
// Engine thread, before serving.
#pragma once

#include <vector>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/runtime/cuda_device.h"
#include "kernels/weight_store.h"

namespace quire::cuda {

// A failure of the device; a cache that cannot be read or written and too little memory are only
// warned about. `progress` may be null.
absl::Status TuneGemm(CudaDevice& device, Gemm& gemm, CudaStream& stream,
                      const std::vector<LinearGroup>& groups, Progress* progress);

}  // namespace quire::cuda
