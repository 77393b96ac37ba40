#include "kernels/read_probe.h"

#include "kernels/cpu/read_probe.h"
#ifdef QUIRE_CUDA
#include "kernels/cuda/read_probe.h"
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

}  // namespace quire
