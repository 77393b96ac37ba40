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

__device__ __forceinline__ void StoreInCluster(uint32_t address, const float (&v)[4]) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v[0]),
               "f"(v[1]), "f"(v[2]), "f"(v[3])
               : "memory");
}

// What this thread wrote before, and what it knows that others wrote, is seen by who waits.
__device__ __forceinline__ void ArriveInCluster(uint32_t mbarrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mbarrier)
               : "memory");
}

// For the end of the phase of this parity of an mbarrier of this CTA, at which others arrive.
__device__ __forceinline__ void WaitForCluster(uint32_t mbarrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT;\n"
      "}\n" ::"r"(mbarrier),
      "r"(parity)
      : "memory");
}

// All threads of all its CTAs.
__device__ __forceinline__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::
                   : "memory");
}

}  // namespace quire::cuda
