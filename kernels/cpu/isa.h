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

// Whether this build has the kernels, and this processor and its kernel can run them.
bool IsaSupported(Isa isa);

Isa BestIsa();

// The instruction set of this name; the best one for "". INVALID_ARGUMENT, with the names that this
// processor has, for another.
absl::StatusOr<Isa> ChooseIsa(const std::string& name);

// Keeps the kernels that Highway dispatches (all but the matrix product, which is told) to
// instruction sets up to `isa`, in the whole process.
void LimitHighwayTargets(Isa isa);

// How many bytes ahead of itself a loop that reads memory in order should fetch into the L2 cache;
// 0 = not at all. An Intel core has more requests to memory on their way from its L2 cache than
// from its L1: compressed weights of one row at 26 to 42 instead of 12 to 23 GB/s with two cores of
// a Xeon. On an EPYC it costs a little.
int64_t ReadAheadBytes();

}  // namespace quire::cpu
