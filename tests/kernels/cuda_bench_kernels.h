// What cuda_bench.cc needs to run on the device: random contents, and a kernel that does nothing
// but read, whose speed is the ceiling for decode attention.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace quire {

// Normal-looking bfloat16 values; never zeros, on which hardware runs faster than on data.
void FillRandomBf16(void* data, int64_t count, uint32_t seed, cudaStream_t stream);
void FillRandomF32(float* data, int64_t count, uint32_t seed, float scale, cudaStream_t stream);

// Reads every byte once, 16 at a time; `sink` keeps the reads alive.
void ReadAll(const void* data, int64_t bytes, uint32_t* sink, cudaStream_t stream);

}  // namespace quire
