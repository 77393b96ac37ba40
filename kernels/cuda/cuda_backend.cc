#include "kernels/cuda/cuda_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/attention/native_attention.h"
#include "kernels/cuda/attention/trtllm/trtllm_attention.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_weight_store.h"
#include "kernels/cuda/runtime/cuda_device.h"

namespace quire::cuda {

namespace {

class CudaBackend : public Backend {
 public:
  CudaBackend(std::unique_ptr<CudaDevice> device, std::unique_ptr<CudaOps> ops)
      : device_(std::move(device)),
        ops_(std::move(ops)),
        weight_store_(*device_, ops_->gemm()),
        native_attention_(*device_),
        trtllm_attention_(*device_) {}

  Device& device() override { return *device_; }
  Ops& ops() override { return *ops_; }
  WeightStore& weight_store() override { return weight_store_; }
  AttentionBackend* attention(AttentionPath path) override {
    switch (path) {
      case AttentionPath::kNative:
        return &native_attention_;
      case AttentionPath::kTrtllm:
        return &trtllm_attention_;
    }
    return nullptr;
  }

 private:
  const std::unique_ptr<CudaDevice> device_;
  const std::unique_ptr<CudaOps> ops_;
  CudaWeightStore weight_store_;
  NativeAttention native_attention_;
  TrtllmAttention trtllm_attention_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(int device_index) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(device_index));
  absl::StatusOr<std::unique_ptr<CudaOps>> ops = CudaOps::Create(*device);
  if (absl::IsResourceExhausted(ops.status())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        ops.status().message(), "; end other programs that use this GPU, or use --device cpu"));
  }
  RETURN_IF_ERROR(ops.status());
  return std::make_unique<CudaBackend>(std::move(device), *std::move(ops));
}

bool DeviceAvailable() { return CudaDevice::Open(0).ok(); }

}  // namespace quire::cuda
