// The gemms to test: one for every instruction set this machine has, and the one for AMX
// where only AVX-512 is there, emulated.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/runtime/isa.h"
#include "tests/kernels/amx_emulator.h"

namespace quire::cpu {

struct GemmTarget {
  std::string name;
  GemmKernel kernel;
};

inline void PrintTo(const GemmTarget& target, std::ostream* out) { *out << target.name; }

inline std::vector<GemmTarget> GemmTargets() {
  std::vector<GemmTarget> targets;
  for (const Isa isa : kAllIsas) {
    if (IsaSupported(isa)) targets.push_back({IsaName(isa), GemmKernelFor(isa)});
  }
#if defined(__x86_64__)
  if (IsaSupported(Isa::kAvx512) && EmulateAmxWhereMissing()) {
    targets.push_back({"emulated_amx_bf16", {.f32 = &kAvx512F32Tiles, .bf16 = &kAmxBf16Tiles}});
  }
#endif
  return targets;
}

}  // namespace quire::cpu
