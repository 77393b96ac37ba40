// What CTAs of a cluster of sm_90 do in each other's shared memory. Device code only.
#pragma once

#include <cstdint>

namespace quire::cuda {

// A CTA's number in its cluster.
__device__ __forceinline__ int ClusterRank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The address in the CTA of that rank of what has this address here.
__device__ __forceinline__ uint32_t AddressInCluster(uint32_t shared_address, int rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address), "r"(rank));
  return address;
}

// To another CTA, whose mbarrier `full` gets the bytes when they are there. As TMA's copies it
// needs no fence, which would wait for all that this thread has under way.
__device__ __forceinline__ void SendInCluster(uint32_t address, const float (&v)[4],
                                              uint32_t full) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
      "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(full)
      : "memory");
}

// Tells only that this thread has come so far: it has read what others may now write by TMA or
// SendInCluster. An arrival that releases what it wrote to the cluster takes a microsecond.
__device__ __forceinline__ void ArriveInCluster(uint32_t mbarrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}

// All threads of all CTAs of the cluster wait for each other. They do not see what the others wrote
// before, except mbarriers that are published.
__device__ __forceinline__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::
                   : "memory");
}

// The same in two parts, with work between them.
__device__ __forceinline__ void ArriveAtCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
}
__device__ __forceinline__ void WaitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

// The same, and what they wrote to shared memory before is seen after.
__device__ __forceinline__ void PublishInCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::
                   : "memory");
}

// The end of a kernel: no CTA ends while others may still read or write its shared memory, or tell
// its mbarriers something. They have done so only when it is published: an arrival that is under
// way to a CTA that has ended is a fault.
__device__ __forceinline__ void EndCluster() { PublishInCluster(); }

// Numbers in a CTA's shared memory; four neighbouring ones.
__device__ __forceinline__ float LoadInCluster(uint32_t address) {
  float number;
  asm volatile("ld.shared::cluster.f32 %0, [%1];\n" : "=f"(number) : "r"(address) : "memory");
  return number;
}
__device__ __forceinline__ float4 LoadQuadInCluster(uint32_t address) {
  float4 quad;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];\n"
               : "=f"(quad.x), "=f"(quad.y), "=f"(quad.z), "=f"(quad.w)
               : "r"(address)
               : "memory");
  return quad;
}

}  // namespace quire::cuda
