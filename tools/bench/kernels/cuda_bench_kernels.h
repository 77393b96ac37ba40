// Random contents on the device, for sampling_bench.cc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace quire {

// Normal-looking bfloat16 values; never zeros, on which hardware runs faster than on data.
void FillRandomBf16(void* data, int64_t count, uint32_t seed, cudaStream_t stream);
void FillRandomF32(float* data, int64_t count, uint32_t seed, float scale, cudaStream_t stream);

}  // namespace quire
