// How CTAs learn that they are the last to come, or that others have. Device code only.
#pragma once

#include <cstdint>

namespace quire::cuda {

// Adds to a counter in global memory and returns what it was. A thread that sees the sum also sees
// what this thread wrote before, and the writes of others that this thread had seen. This takes
// half as long as an atomicAdd between two __threadfence, which are sequentially consistent: 0.5 us
// instead of 1.
__device__ __forceinline__ int32_t AddAndSee(int32_t* counter, int32_t addend) {
  int32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;\n"
               : "=r"(before)
               : "l"(counter), "r"(addend)
               : "memory");
  return before;
}

// Adds one to a counter in global memory. A thread that sees the sum also sees what this thread
// wrote before, and the writes of others that this thread had seen.
__device__ __forceinline__ void AnnounceArrival(int32_t* counter) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;\n" ::"l"(counter) : "memory");
}

// Waits until the counter is `count`. The caller then sees everything that the threads that added
// to it announced.
__device__ __forceinline__ void WaitForArrivals(const int32_t* counter, int32_t count) {
  int32_t seen;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];\n" : "=r"(seen) : "l"(counter) : "memory");
  } while (seen != count);
}

}  // namespace quire::cuda
