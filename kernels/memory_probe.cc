#include "kernels/memory_probe.h"

#include "kernels/cpu/memory_probe.h"
#ifdef QUIRE_CUDA
#include "kernels/cuda/memory_probe.h"
#endif

namespace quire {

void EnqueueRead(Backend& backend, Stream& stream, const void* data, int64_t bytes,
                 uint32_t* sink) {
  CHECK_EQ(bytes % 64, 0);
#ifdef QUIRE_CUDA
  if (backend.device().info().kind == DeviceKind::kCuda) {
    cuda::EnqueueRead(stream, data, bytes, sink);
    return;
  }
#endif
  cpu::EnqueueRead(static_cast<cpu::CpuDevice&>(backend.device()).pool(), stream, data, bytes,
                   sink);
}

void EnqueueCopy(Backend& backend, Stream& stream, void* to, const void* from, int64_t bytes) {
  CHECK_EQ(bytes % 64, 0);
#ifdef QUIRE_CUDA
  if (backend.device().info().kind == DeviceKind::kCuda) {
    cuda::EnqueueCopy(stream, to, from, bytes);
    return;
  }
#endif
  cpu::EnqueueCopy(static_cast<cpu::CpuDevice&>(backend.device()).pool(), stream, to, from, bytes);
}

}  // namespace quire
