// The targets that tests of attention run on: the native path of all of KernelTargets, and emulated
// AMX where only AVX-512 is there. On a GPU also the kernels for prompts of devices before Hopper,
// and the second path.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/attention/attention_kernel.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/amx_emulator.h"
#include "tests/kernels/kernel_test.h"
#ifdef QUIRE_PORTABLE_PREFILL
#include "kernels/cuda/attention/native_attention.h"
#endif

namespace quire {

inline constexpr char kEmulatedAmx[] = "Cpu_emulated_amx_bf16";
inline constexpr char kPortablePrefill[] = "Cuda_portable_prefill";

inline std::vector<KernelTarget> AttentionTargets() {
  std::vector<KernelTarget> targets = KernelTargets();
  if (cpu::IsaSupported(cpu::Isa::kAvx512) && EmulateAmxWhereMissing()) {
    targets.push_back({kEmulatedAmx, DeviceKind::kCpu, ""});
  }
#ifdef QUIRE_PORTABLE_PREFILL
  if (CudaAvailable()) targets.push_back({kPortablePrefill, DeviceKind::kCuda, ""});
#endif
  return targets;
}

// The second path is added where the GPU has it.
inline std::vector<KernelTarget> WithTrtllm(std::vector<KernelTarget> targets) {
  if (!CudaAvailable()) return targets;
  const auto backend = OpenBackend({.kind = DeviceKind::kCuda});
  if (backend.ok() && (*backend)->device().info().sm_version == 90) {
    targets.push_back({"Cuda_trtllm", DeviceKind::kCuda, "", AttentionPath::kTrtllm});
  }
  return targets;
}

// The CPU, with AMX only for attention.
class EmulatedAmxBackend : public Backend {
 public:
  explicit EmulatedAmxBackend(int num_threads)
      : cpu_(num_threads), attention_(cpu_.device().pool(), cpu::Isa::kAmxBf16) {}
  Device& device() override { return cpu_.device(); }
  Ops& ops() override { return cpu_.ops(); }
  WeightStore& weight_store() override { return cpu_.weight_store(); }
  AttentionBackend* attention(AttentionPath path) override {
    return path == AttentionPath::kNative ? &attention_ : nullptr;
  }

 private:
  cpu::CpuBackend cpu_;
  cpu::NativeAttention attention_;
};

#ifdef QUIRE_PORTABLE_PREFILL
// A GPU, with the kernels of devices before Hopper for prompts.
class PortablePrefillBackend : public Backend {
 public:
  PortablePrefillBackend()
      : cuda_(OpenBackend({.kind = DeviceKind::kCuda}).value()),
        attention_(cuda_->device(), cuda::PrefillKernels::kPortable) {}
  Device& device() override { return cuda_->device(); }
  Ops& ops() override { return cuda_->ops(); }
  WeightStore& weight_store() override { return cuda_->weight_store(); }
  AttentionBackend* attention(AttentionPath path) override {
    return path == AttentionPath::kNative ? &attention_ : nullptr;
  }

 private:
  const std::unique_ptr<Backend> cuda_;
  cuda::NativeAttention attention_;
};
#endif

}  // namespace quire
