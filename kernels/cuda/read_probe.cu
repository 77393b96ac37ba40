#include "kernels/cuda/read_probe.h"
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

}  // namespace

void EnqueueRead(Stream& stream, const void* data, int64_t bytes, uint32_t* sink) {
  CudaStream::From(stream).Run("read probe", [=](cudaStream_t handle) {
    Read<<<kCtas, kThreads, 0, handle>>>(static_cast<const uint4*>(data), bytes / 16, sink);
  });
}

}  // namespace quire::cuda
