#include "kernels/cpu/gemm/quantized/pair_amx.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/runtime/amx.h"

// After what it is written in.
#include "kernels/cpu/gemm/amx_tile-inl.h"

namespace quire::cpu {

namespace {

static_assert(kPanelFeatures == 4 * kAmxColumns);
constexpr int64_t kBlockWords = kBlockSteps * kPanelFeatures;

void AddToOut(const PairRows& rows, int64_t span, const float* sums) {
  const bool has_zeros = rows.span_sums != nullptr;
  ScaleSums({.layout = rows.layout,
             .steps = rows.steps,
             .panel = rows.panel,
             .span = span,
             .num_rows = rows.num_rows,
             .sums = sums,
             .span_sums = has_zeros ? rows.span_sums + span * rows.span_sum_stride : nullptr,
             .out = rows.out});
}

// Sums that stay in registers over a span's blocks; those of the span before are scaled while AMX
// computes.
template <int kA, int kB>
void MultiplySlice(const PairRows& rows, const PairSlice& slice, float* carry) {
  using Sums = AmxSums<AmxStep::kBf16, kA, kB>;
  constexpr int64_t kColumns = kB * kAmxColumns;
  alignas(64) float sums[2][kA * kAmxRows * kPanelFeatures];
  const PairSteps& steps = *rows.steps;
  const char* const x = static_cast<const char*>(rows.x);
  const int64_t row_bytes = rows.num_rows * kAmxRowBytes;
  const int64_t first_span = steps.SpanOf(slice.first_block);
  const int64_t end = slice.first_block + slice.num_blocks;
  Sums::Configure(rows.num_rows);
  int64_t span = first_span;
  for (int64_t block = slice.first_block; block < end; ++span) {
    const int64_t span_end = steps.FirstBlockOf(span + 1), last = std::min(end, span_end);
    const bool begins = block == steps.FirstBlockOf(span);
    float* const to = last == span_end ? sums[span % 2] : carry;
    for (int64_t column = 0; column < kPanelFeatures; column += kColumns) {
      begins ? Sums::Zero() : Sums::Load(carry + column);
      for (int64_t i = block; i < last; ++i) {
        const uint32_t* const weights =
            slice.blocks + (i - slice.first_block) * kBlockWords + column;
        Sums::Add(x + i * row_bytes, reinterpret_cast<const char*>(weights), [] {});
      }
      Sums::Store(to + column);
    }
    if (span > first_span) AddToOut(rows, span - 1, sums[(span - 1) % 2]);
    block = last;
  }
  AmxRelease();
  if (end == steps.FirstBlockOf(span)) AddToOut(rows, span - 1, sums[(span - 1) % 2]);
}

}  // namespace

// A block is expanded while the one before it may still be multiplied, from the other buffer; a
// span's sums are scaled while the next span's first block is multiplied.
void PairAmxTile(const PairRows& rows, int64_t read_ahead) {
  using Sums = AmxSums<AmxStep::kBf16, 1, 4>;
  alignas(64) uint32_t blocks[2][kBlockWords];
  alignas(64) float sums[kAmxRows * kPanelFeatures];
  const PairSteps& steps = *rows.steps;
  const auto expand = [&](int64_t block) {
    ExpandBlocks({.layout = rows.layout,
                  .steps = rows.steps,
                  .panel = rows.panel,
                  .first_block = block,
                  .num_blocks = 1,
                  .read_ahead = read_ahead,
                  .out = blocks[block % 2]});
  };
  const char* x = static_cast<const char*>(rows.x);
  Sums::Configure(rows.num_rows);
  Sums::Zero();
  for (int64_t block = 0; block < steps.num_blocks; ++block) {
    expand(block);
    const int64_t span = steps.SpanOf(block);
    const bool closes_span = span > 0 && block == steps.FirstBlockOf(span);
    if (closes_span) {
      Sums::Store(sums);
      Sums::Zero();
    }
    Sums::Add(x, reinterpret_cast<const char*>(blocks[block % 2]), [] {});
    if (closes_span) AddToOut(rows, span - 1, sums);
    x += rows.num_rows * kAmxRowBytes;
  }
  Sums::Store(sums);
  AmxRelease();
  AddToOut(rows, steps.num_spans - 1, sums);
}

void PairAmxSlice(const PairRows& rows, const PairSlice& slice, float* carry) {
  const auto multiply = rows.num_rows > kAmxRows ? MultiplySlice<2, 2> : MultiplySlice<1, 4>;
  multiply(rows, slice, carry);
}

}  // namespace quire::cpu
