#include "kernels/cpu/runtime/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "hwy/targets.h"

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
    case Isa::kAmxBf16:
      return "amx_bf16";
  }
  return "unknown";
}

#if defined(__x86_64__)
namespace {

// AMX's bits of CPUID's leaf 7.
constexpr unsigned kAmxBf16Bit = 1u << 22, kAmxTileBit = 1u << 24, kAmxInt8Bit = 1u << 25;

bool HasAmx(unsigned bits) {
  unsigned eax, ebx, ecx, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & bits) == bits;
}

// Linux gives a process the tiles' state when it asks for it, for all its threads.
bool MayUseAmxTiles() {
  constexpr int kRequestState = 0x1023, kTileData = 18;  // <asm/prctl.h>, XFEATURE_XTILEDATA
  static const bool may = syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
  return may;
}

}  // namespace
#endif

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
    case Isa::kAmxBf16:
      return IsaSupported(Isa::kAvx512Bf16) && HasAmx(kAmxBf16Bit | kAmxTileBit) &&
             MayUseAmxTiles();
  }
#endif
  return isa == Isa::kGeneric;
}

bool HasAmxInt8() {
#if defined(__x86_64__)
  return HasAmx(kAmxInt8Bit);
#else
  return false;
#endif
}

Isa BestIsa() {
  Isa best = Isa::kGeneric;
  for (Isa isa : kAllIsas) {
    if (IsaSupported(isa)) best = isa;
  }
  return best;
}

absl::StatusOr<Isa> ChooseIsa(const std::string& name) {
  if (name.empty()) return BestIsa();
  std::string supported;
  for (Isa isa : kAllIsas) {
    if (!IsaSupported(isa)) continue;
    if (name == IsaName(isa)) return isa;
    absl::StrAppend(&supported, supported.empty() ? "" : ", ", IsaName(isa));
  }
  return absl::OutOfRangeError(
      absl::StrCat("--cpu-isa: this machine has no ", name, "; it has ", supported));
}

void LimitHighwayTargets(Isa isa) {
  // In Highway's masks a better target of an architecture is a lower bit.
  int64_t disabled = 0;
#if defined(__x86_64__)
  if (isa == Isa::kGeneric) disabled = (HWY_AVX2 << 1) - 1;
  if (isa == Isa::kAvx2) disabled = HWY_AVX2 - 1;
#else
  (void)isa;
#endif
  hwy::DisableTargets(disabled);
}

}  // namespace quire::cpu
