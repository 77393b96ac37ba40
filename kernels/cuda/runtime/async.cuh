// The means by which warps of sm_90 with different roles hand each other data and registers:
// mbarriers in shared memory that count arrivals and bytes, copies of boxes of a tensor by TMA,
// named barriers among some of a CTA's warps, and moving registers between them. Device code only.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace quire::cuda {

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// An mbarrier's phase ends when all `arrivals` have come and all bytes that were expected.
__device__ __forceinline__ void InitMbarrier(uint32_t mbarrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(mbarrier), "r"(arrivals));
}

// After InitMbarrier, before other threads or TMA use the mbarriers.
__device__ __forceinline__ void PublishMbarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ __forceinline__ void Arrive(uint32_t mbarrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(mbarrier) : "memory");
}

__device__ __forceinline__ void ArriveExpectingBytes(uint32_t mbarrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(mbarrier),
               "r"(bytes)
               : "memory");
}

// Waits for the end of the phase of this parity: 0 for the first, then 1, 0, ...
__device__ __forceinline__ void Wait(uint32_t mbarrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT;\n"
      "}\n" ::"r"(mbarrier),
      "r"(parity)
      : "memory");
}

// A place in a ring and the parity of its phase.
struct RingPlace {
  int32_t index = 0;
  uint32_t parity = 0;

  __device__ void Advance(int32_t by, int32_t size) {
    index += by;
    while (index >= size) {
      index -= size;
      parity ^= 1;
    }
  }
  __device__ void Next(int32_t size) {
    if (++index < size) return;
    index = 0;
    parity ^= 1;
  }
};

// Fetches the description of a tensor, in the kernel's parameters, ahead of its first box.
__device__ __forceinline__ void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

// Copies one box of a tensor of two or four dimensions to shared memory; its bytes arrive at the
// mbarrier. The part of the box outside of the tensor becomes zeros.
__device__ __forceinline__ void CopyBox(uint32_t shared_dst, const CUtensorMap& map, int32_t x,
                                        int32_t y, uint32_t mbarrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(shared_dst),
      "l"(&map), "r"(x), "r"(y), "r"(mbarrier)
      : "memory");
}
__device__ __forceinline__ void CopyBox(uint32_t shared_dst, const CUtensorMap& map, int32_t x,
                                        int32_t y, int32_t z, int32_t w, uint32_t mbarrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];\n" ::"r"(shared_dst),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(mbarrier)
      : "memory");
}

// Bytes in a row, a multiple of 16 at addresses of that alignment.
__device__ __forceinline__ void CopyBytes(uint32_t shared_dst, const void* from, uint32_t bytes,
                                          uint32_t mbarrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(shared_dst),
      "l"(from), "r"(bytes), "r"(mbarrier)
      : "memory");
}

// The same as CopyBox to that place in all CTAs of the cluster that `ctas` has a bit of, whose
// mbarriers there get the bytes.
__device__ __forceinline__ void CopyBoxToAll(uint32_t shared_dst, const CUtensorMap& map, int32_t x,
                                             int32_t y, uint32_t mbarrier, uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(shared_dst),
      "l"(&map), "r"(x), "r"(y), "r"(mbarrier), "h"(ctas)
      : "memory");
}

// A box of shared memory to a tensor, without what lies outside of it; FenceSharedWrites comes
// before. Then CommitStores; a thread's own stores have been read after WaitForStoresRead.
__device__ __forceinline__ void StoreBox(uint32_t shared_src, const CUtensorMap& map, int32_t x,
                                         int32_t y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n" ::"l"(&map),
      "r"(x), "r"(y), "r"(shared_src)
      : "memory");
}
__device__ __forceinline__ void CommitStores() {
  asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
}
__device__ __forceinline__ void WaitForStoresRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;\n" ::: "memory");
}

// Four 8 x 8 matrices of 16-bit elements, a pair of each row in a lane, to shared memory: lane i
// has the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void StoreMatrices(uint32_t row, const uint32_t (&matrices)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(row),
               "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
               : "memory");
}

// 16 bytes of shared memory.
__device__ __forceinline__ uint4 LoadShared16(uint32_t from) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(from)
               : "memory");
  return value;
}
__device__ __forceinline__ void StoreShared16(uint32_t to, const uint4& value) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w)
               : "memory");
}

__device__ __forceinline__ void StoreShared8(uint32_t to, const uint2& value) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};\n" ::"r"(to), "r"(value.x), "r"(value.y)
               : "memory");
}

// Two neighbouring numbers of it in one access: their address is aligned to the eight bytes that
// they have together.
__device__ __forceinline__ float2 LoadSharedPair(uint32_t from) {
  float2 pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n"
               : "=f"(pair.x), "=f"(pair.y)
               : "r"(from)
               : "memory");
  return pair;
}

// Fewer bytes of it.
__device__ __forceinline__ uint32_t LoadShared4(uint32_t from) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(value) : "r"(from) : "memory");
  return value;
}
__device__ __forceinline__ uint32_t LoadShared2(uint32_t from) {
  uint16_t value;
  asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(value) : "r"(from) : "memory");
  return value;
}
__device__ __forceinline__ uint32_t LoadShared1(uint32_t from) {
  uint32_t value;
  asm volatile("ld.shared.u8 %0, [%1];\n" : "=r"(value) : "r"(from) : "memory");
  return value;
}
__device__ __forceinline__ void StoreShared4(uint32_t to, uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;\n" ::"r"(to), "r"(value) : "memory");
}

// True in one lane of the warp, all of which call it; the compiler then knows that what follows
// runs once.
__device__ __forceinline__ bool ElectLane() {
  uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(elected));
  return elected != 0;
}

// Makes this thread's writes to shared memory visible to gemms and TMA.
__device__ __forceinline__ void FenceSharedWrites() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

// Named barriers among `threads` of the CTA; 0 is __syncthreads.
__device__ __forceinline__ void SyncSome(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void ArriveSome(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// Gives registers back, or takes them, so that each thread of the warpgroup has kRegisters.
template <int kRegisters>
__device__ __forceinline__ void ReleaseRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

}  // namespace quire::cuda
