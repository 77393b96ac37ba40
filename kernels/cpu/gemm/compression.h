// Lossless compression of packed bfloat16 weights to 12 bits each: a decode step on a CPU is bound
// by reading them. The upper byte of nearly all weights of a panel is one of 16: a sign and one of
// eight pairs of neighbouring exponents. (It is known that trained weights use only a fraction of
// their exponents: DFloat11, arXiv 2504.11651.) So a 4-bit code stands for the upper byte, and the
// few other weights are listed. The multiplication expands the codes to the very bits that were
// there.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/op_args.h"

namespace quire::cpu {

// A weight that its panel's codes cannot express.
struct WeightException {
  int32_t step;
  uint16_t element;  // within the step, in the order of packing.h
  uint16_t bits;
};

// Exceptions that are still to come.
struct ExceptionRange {
  const WeightException* next;
  const WeightException* end;

  int64_t NextStep(int64_t if_none) const { return next == end ? if_none : next->step; }
};

// A panel of 64 output features: this, its steps, its exceptions in the order of their steps. A
// step of 128 weights is two vectors of 64 lower bytes and 64 bytes of codes: the lower four bits
// for the first vector, the upper ones for the second. Byte b of vector v holds element
// ElementAt(v, b), so that interleaving the bytes of 128-bit lanes gives elements in order.
struct alignas(64) CompressedPanel {
  uint8_t upper[16];  // the upper byte by code
  int32_t num_exceptions;

  const char* Step(int64_t step) const;
  ExceptionRange Exceptions(int64_t num_steps) const;
};

inline constexpr int64_t kCompressedStepBytes = 192;

constexpr int ElementAt(int vector, int byte) {
  const int lane = byte / 16;
  const int within = byte % 16;
  return 64 * vector + (within < 8 ? lane * 8 + within : 32 + lane * 8 + within - 8);
}

inline const char* CompressedPanel::Step(int64_t step) const {
  return reinterpret_cast<const char*>(this + 1) + step * kCompressedStepBytes;
}

inline ExceptionRange CompressedPanel::Exceptions(int64_t num_steps) const {
  const auto* first = reinterpret_cast<const WeightException*>(Step(num_steps));
  return {first, first + num_exceptions};
}

// From one panel to the next.
inline int64_t CompressedPanelBytes(const LinearWeight& weight) {
  return weight.compressed_bytes / NumPanels(weight);
}

inline const CompressedPanel& CompressedPanelOf(const LinearWeight& weight, int64_t panel) {
  return *reinterpret_cast<const CompressedPanel*>(static_cast<const char*>(weight.data) +
                                                   panel * CompressedPanelBytes(weight));
}

// Compresses a packed weight, if it is bfloat16 and few of its weights would be exceptions: sets
// its format, compressed_bytes and data, which is then `target`. That is weight.data or before it,
// also where the two overlap; both are aligned to 64 bytes.
void Compress(LinearWeight& weight, void* target, ThreadPool& pool);

// UnpackRow of a compressed weight.
void UnpackCompressedRow(const LinearWeight& weight, int64_t row, BFloat16* out);

}  // namespace quire::cpu
