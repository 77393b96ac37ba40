#include <cuda_bf16.h>

#include "tools/bench/kernels/cuda_bench_kernels.h"

namespace quire {

namespace {

constexpr int kThreads = 512;
constexpr int kCtas = 132 * 4;

// About normal: the sum of four uniforms in (-1, 1).
__device__ float RandomValue(uint64_t index, uint32_t seed) {
  uint64_t x = (index + 1) * 0x9E3779B97F4A7C15ull + seed * 0xD1B54A32D192ED03ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>(x >> (16 * i) & 0xffff) / 32768.0f - 1.0f;
  return sum * 0.866f;
}

__global__ void FillBf16(__nv_bfloat16* data, int64_t count, uint32_t seed) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += kCtas * kThreads) {
    data[i] = __float2bfloat16(RandomValue(i, seed));
  }
}

__global__ void FillF32(float* data, int64_t count, uint32_t seed, float scale) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += kCtas * kThreads) {
    data[i] = RandomValue(i, seed) * scale;
  }
}

}  // namespace

void FillRandomBf16(void* data, int64_t count, uint32_t seed, cudaStream_t stream) {
  FillBf16<<<kCtas, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(data), count, seed);
}

void FillRandomF32(float* data, int64_t count, uint32_t seed, float scale, cudaStream_t stream) {
  FillF32<<<kCtas, kThreads, 0, stream>>>(data, count, seed, scale);
}

}  // namespace quire
