// CudaOps: Ops on a GPU. Each call enqueues a few kernels, mostly one. Used by the engine's thread.
#pragma once

#include <memory>
#include <utility>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/runtime/cuda_device.h"
#include "kernels/ops.h"

namespace quire::cuda {

class CudaOps : public Ops {
 public:
  static absl::StatusOr<std::unique_ptr<CudaOps>> Create(Device& device);

  Gemm& gemm() { return *gemm_; }

 private:
  CudaOps(std::unique_ptr<Gemm> gemm, DeviceBuffer sample_workspace)
      : gemm_(std::move(gemm)), sample_workspace_(std::move(sample_workspace)) {}

#define QUIRE_OP(name) void Enqueue(Stream& stream, const name##Args& args) override;
  QUIRE_OPS(QUIRE_OP)
#undef QUIRE_OP

  const std::unique_ptr<Gemm> gemm_;
  const DeviceBuffer sample_workspace_;
};

}  // namespace quire::cuda
