// LaunchKernel: starts a kernel that may become resident while its predecessor on the stream still
// runs (programmatic dependent launch, sm_90 and later; captured into a graph as it is; an ordinary
// launch on older devices).
// Invariant: every kernel launched so calls WaitForPredecessor in every CTA before it reads or
// writes anything that another kernel writes or reads, and before that CTA ends: only then does a
// kernel that has waited know that all work before it is complete. Before the wait it may read data
// that does not change while serving: weights and tables that a synchronised stream wrote. It may
// also read, past L1, data that was complete before a kernel that released no successor (PlanDecode
// of attention/trtllm/decode_plan.cu): nothing after that kernel starts before its end. A kernel
// may not use the read-only path (__ldg, ld.global.nc) for data that it reads after the wait. If
// its predecessor releases it only after the predecessor's own wait, a kernel may wait later,
// before it touches what the predecessor touches (hopper_attention.h, gated_delta_kernels.h):
// everything that came before the predecessor is complete by then.
#pragma once

#include <cuda_runtime.h>

#include <utility>

namespace quire::cuda {

// Returns when all kernels before this one on the stream are complete and their writes visible.
__device__ inline void WaitForPredecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel's CTAs become resident once every CTA of this one has called it or ended.
// They take only what this kernel leaves free, so a kernel calls it first of all.
__device__ inline void ReleaseSuccessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// An attribute of the device that is current.
inline int DeviceAttribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

// The multiprocessors of the device that is current on the first call: a process drives devices of
// one kind.
inline int NumSms() {
  static const int num_sms = DeviceAttribute(cudaDevAttrMultiProcessorCount);
  return num_sms;
}
inline int ComputeCapabilityMajor() {
  static const int major = DeviceAttribute(cudaDevAttrComputeCapabilityMajor);
  return major;
}
// Whether it runs code for sm_90a.
inline bool IsHopper() { return ComputeCapabilityMajor() == 9; }
inline bool HasDependentLaunch() { return ComputeCapabilityMajor() >= 9; }

struct LaunchTraits {
  int cluster_size = 1;     // more: this many consecutive CTAs, at most 8, are a cluster of sm_90
  int shared_percent = -1;  // of L1 that is shared memory; not negative: it may be divided anew
};

// A launch that fails is left for cudaGetLastError.
template <typename... Params, typename... Args>
void LaunchAs(const LaunchTraits& traits, void (*kernel)(Params...), dim3 grid, dim3 block,
              size_t shared_bytes, cudaStream_t stream, Args&&... args) {
  cudaLaunchAttribute attributes[3];
  unsigned int count = 0;
  if (HasDependentLaunch()) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (traits.cluster_size > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned int>(traits.cluster_size), 1, 1};
  }
  if (traits.shared_percent >= 0) {
    attributes[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[count++].val.sharedMemCarveout = static_cast<unsigned int>(traits.shared_percent);
  }
  const cudaLaunchConfig_t config = {.gridDim = grid,
                                     .blockDim = block,
                                     .dynamicSmemBytes = shared_bytes,
                                     .stream = stream,
                                     .attrs = attributes,
                                     .numAttrs = count};
  cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
}

template <typename... Params, typename... Args>
void LaunchKernel(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                  cudaStream_t stream, Args&&... args) {
  LaunchAs({}, kernel, grid, block, shared_bytes, stream, std::forward<Args>(args)...);
}

}  // namespace quire::cuda
