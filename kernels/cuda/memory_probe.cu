#include "kernels/cuda/memory_probe.h"
#include "kernels/cuda/runtime/cuda_stream.h"

namespace quire::cuda {

namespace {

constexpr int kThreads = 512;
constexpr int kCtas = 132 * 4;  // four on each of a Hopper's SMs

__global__ void Read(const uint4* data, int64_t count, uint32_t* sink) {
  uint4 sum = {};
#pragma unroll 8
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += kCtas * kThreads) {
    const uint4 value = __ldcs(data + i);
    sum.x ^= value.x;
    sum.y ^= value.y;
    sum.z ^= value.z;
    sum.w ^= value.w;
  }
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345678u) *sink = 1;
}

__global__ void Copy(uint4* __restrict__ to, const uint4* __restrict__ from, int64_t count) {
  constexpr int kBatch = 8;  // under way at once
  constexpr int64_t kStride = int64_t{kCtas} * kThreads;
  for (int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x; first < count;
       first += kBatch * kStride) {
    uint4 values[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i * kStride < count) values[i] = __ldcs(from + first + i * kStride);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i * kStride < count) __stcs(to + first + i * kStride, values[i]);
    }
  }
}

}  // namespace

void EnqueueRead(Stream& stream, const void* data, int64_t bytes, uint32_t* sink) {
  CudaStream::From(stream).Run("read probe", [=](cudaStream_t handle) {
    Read<<<kCtas, kThreads, 0, handle>>>(static_cast<const uint4*>(data), bytes / 16, sink);
  });
}

void EnqueueCopy(Stream& stream, void* to, const void* from, int64_t bytes) {
  CudaStream::From(stream).Run("copy probe", [=](cudaStream_t handle) {
    Copy<<<kCtas, kThreads, 0, handle>>>(static_cast<uint4*>(to), static_cast<const uint4*>(from),
                                         bytes / 16);
  });
}

}  // namespace quire::cuda
