#include "kernels/cpu/isa.h"

namespace quire::cpu {

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return "generic";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

bool IsaSupported(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kGeneric:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    case Isa::kAvx512Bf16:
      return IsaSupported(Isa::kAvx512) && __builtin_cpu_supports("avx512bf16");
  }
#endif
  return isa == Isa::kGeneric;
}

Isa BestIsa() {
  Isa best = Isa::kGeneric;
  for (Isa isa : kAllIsas) {
    if (IsaSupported(isa)) best = isa;
  }
  return best;
}

}  // namespace quire::cpu
