// Few rows times pairs of columns with AMX, by the tile that bfloat16 has (amx_tile-inl.h).
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/gemm/quantized/pair_steps.h"
#include "kernels/cpu/runtime/amx.h"

// After what it is written in.
#include "kernels/cpu/gemm/amx_tile-inl.h"

namespace quire::cpu {

namespace {

using Sums = AmxSums<AmxStep::kBf16, 1, 4>;
static_assert(kPanelFeatures == 4 * kAmxColumns);

constexpr int64_t kBlockWords = kBlockSteps * kPanelFeatures;

// The place of a block of steps in a panel.
struct Place {
  int64_t span = 0;
  int64_t unit = 0;  // of the span

  Place Next(const PairSteps& steps) const {
    const int64_t next = unit + kBlockSteps / steps.unit_steps;
    return next < steps.UnitsOf(span) ? Place{span, next} : Place{span + 1, 0};
  }
};

void ExpandBlock(const PairTileArgs& args, const Place& at, uint32_t* out) {
  const int64_t unit_steps = args.steps->unit_steps;
  const int64_t count = std::min(kBlockSteps / unit_steps, args.steps->UnitsOf(at.span) - at.unit);
  ExpandSteps({.layout = args.layout,
               .steps = args.steps,
               .panel = args.panel,
               .span = at.span,
               .first_unit = at.unit,
               .num_units = count,
               .read_ahead = args.read_ahead,
               .out = out});
  std::fill(out + count * unit_steps * kPanelFeatures, out + kBlockWords, 0);
}

void AddToOut(const PairTileArgs& args, int64_t span, const float* products) {
  const bool has_zeros = args.span_sums != nullptr;
  ScaleSums({.layout = args.layout,
             .steps = args.steps,
             .panel = args.panel,
             .span = span,
             .num_rows = args.num_rows,
             .sums = products,
             .span_sums = has_zeros ? args.span_sums + span * args.num_rows : nullptr,
             .out = args.out});
}

}  // namespace

// A block is expanded while the one before it is multiplied: what has just been written is not in
// the cache yet. A span's sums are scaled while the next span's first block is multiplied.
void PairAmxTile(const PairTileArgs& args) {
  alignas(64) uint32_t blocks[2][kBlockWords];
  alignas(64) float products[kAmxRows * kPanelFeatures];
  const char* x = static_cast<const char*>(args.x);
  Sums::Configure(args.num_rows);
  Sums::Zero();
  Place at;
  ExpandBlock(args, at, blocks[0]);
  for (int64_t i = 0; at.span < args.steps->num_spans; ++i) {
    const Place next = at.Next(*args.steps);
    if (next.span < args.steps->num_spans) ExpandBlock(args, next, blocks[(i + 1) % 2]);
    const bool closes_span = at.unit == 0 && at.span > 0;
    if (closes_span) {
      Sums::Store(products);
      Sums::Zero();
    }
    Sums::Add(x, reinterpret_cast<const char*>(blocks[i % 2]), [] {});
    if (closes_span) AddToOut(args, at.span - 1, products);
    x += args.num_rows * kAmxRowBytes;
    at = next;
  }
  Sums::Store(products);
  AmxRelease();
  AddToOut(args, args.steps->num_spans - 1, products);
}

}  // namespace quire::cpu
