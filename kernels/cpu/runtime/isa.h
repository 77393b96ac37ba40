// The instruction sets that the CPU backend has kernels for, best last. Chosen once per backend
// from what the processor reports; tests force the others. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace quire::cpu {

enum class Isa : uint8_t { kGeneric, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };

inline constexpr Isa kAllIsas[] = {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16,
                                   Isa::kAmxBf16};

const char* IsaName(Isa isa);  // "generic", "avx2", "avx512", "avx512_bf16", "amx_bf16"

// Whether this build has the kernels, the processor can run them and the system lets us. For AMX
// this asks Linux to, once and for the whole process, whose signals then need larger stacks.
bool IsaSupported(Isa isa);

// Whether AMX has instructions for int8, too, where kAmxBf16 is supported.
bool HasAmxInt8();

Isa BestIsa();

// The instruction set of this name; the best one for "". OUT_OF_RANGE, with the names that this
// machine has, for another.
absl::StatusOr<Isa> ChooseIsa(const std::string& name);

// Limits the kernels that Highway dispatches to instruction sets up to `isa`, in the whole process.
// The gemm is not among them: it is told its instruction set. Backends that live at the same time
// must not differ by more than AVX-512 and AMX.
void LimitHighwayTargets(Isa isa);

}  // namespace quire::cpu
