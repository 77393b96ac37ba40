// CpuBackend: the host as a Backend. Opened by kernels/backend.cc, and by tests that want a
// particular instruction set.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/attention/native_attention.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_weight_store.h"
#include "kernels/cpu/runtime/cpu_device.h"
#include "kernels/cpu/runtime/isa.h"

namespace quire::cpu {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int num_threads, Isa isa = BestIsa(), bool compress_weights = true)
      : device_(num_threads, isa),
        ops_(isa, device_.pool()),
        weight_store_(compress_weights && ops_.gemm().can_expand(), device_),
        attention_(device_.pool(), isa) {
    LimitHighwayTargets(isa);
  }

  CpuDevice& device() override { return device_; }
  Ops& ops() override { return ops_; }
  WeightStore& weight_store() override { return weight_store_; }
  AttentionBackend* attention(AttentionPath path) override {
    return path == AttentionPath::kNative ? &attention_ : nullptr;
  }

 private:
  CpuDevice device_;
  CpuOps ops_;
  CpuWeightStore weight_store_;
  NativeAttention attention_;
};

}  // namespace quire::cpu
