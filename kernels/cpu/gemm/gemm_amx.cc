// Gemms with AMX (amx.h): blocks of 16 rows, 32 input features and 16 columns. Each output is
// one chain of additions over blocks, whatever the number of rows. AVX-512 expands compressed
// weights for it.
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/base/tensor.h"
#include "kernels/cpu/gemm/compression.h"
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/runtime/amx.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,fma,amx-tile,amx-bf16")
#include "kernels/cpu/gemm/amx_tile-inl.h"
#include "kernels/cpu/gemm/expand_avx512-inl.h"
#include "kernels/cpu/gemm/gemm_kernel-inl.h"

namespace quire::cpu {

namespace {

template <int kA, int kB>
using Sums = AmxSums<AmxStep::kBf16, kA, kB>;

// Over the columns that begin with the Expander's part kFirstPart.
template <int kA, int kB, int kFirstPart>
void MultiplyCompressed(const TileArgs& args) {
  constexpr int kParts = kB / kPartVectors;
  constexpr int64_t kBlockBytes = kBlockSteps * kStepBytes;
  // All columns at once are those of a panel's only tile, which leaves nothing behind. Two blocks
  // in turn: one is written while the other is still read.
  constexpr bool kLeavesSteps = kB * kAmxColumns < kPanelFeatures;
  alignas(64) char here[kLeavesSteps ? 64 : 2 * kBlockBytes];
  Sums<kA, kB>::Open(args);
  const CompressedSteps& steps = args.compressed;
  const ExpanderAvx512 expander(*steps.panel);
  ExceptionRange exceptions = steps.exceptions;
  Prefetch prefetch = *args.prefetch;
  const char* x = static_cast<const char*>(args.activations);
  for (int64_t step = 0; step < args.num_steps; step += kBlockSteps) {
    char* const block = kLeavesSteps ? steps.expanded + step * kStepBytes
                                     : here + step / kBlockSteps % 2 * kBlockBytes;
    const int64_t first = steps.first + step;
    const int64_t num_steps = std::min(args.num_steps - step, kBlockSteps);
    for (int64_t i = 0; i < num_steps; ++i) {
      prefetch.Step();
      ExpandParts<ExpanderAvx512, kFirstPart, kParts>(steps.panel->Step(first + i), expander,
                                                      block + i * kStepBytes);
    }
    std::memset(block + num_steps * kStepBytes, 0, (kBlockSteps - num_steps) * kStepBytes);
    for (int64_t next; (next = exceptions.NextStep(first + num_steps)) < first + num_steps;) {
      PatchStep(&exceptions, block + (next - first) * kStepBytes);
    }
    Sums<kA, kB>::Add(x, block + kFirstPart * kPartVectors * kAmxRowBytes, [] {});
    x += args.num_rows * kAmxRowBytes;
  }
  *args.prefetch = prefetch;
  Sums<kA, kB>::Close(args);
}

void AmxTile(const TileArgs& args) {
  if (args.num_columns == kPanelFeatures) return MultiplyPacked<AmxStep::kBf16, 1, 4>(args);
  if (args.num_rows > kAmxRows) return MultiplyPacked<AmxStep::kBf16, 2, 2>(args);
  return MultiplyPacked<AmxStep::kBf16, 1, 2>(args);
}

void AmxCompressedTile(const TileArgs& args) {
  if (args.num_columns == kPanelFeatures) return MultiplyCompressed<1, 4, 0>(args);
  const bool is_first = args.first_column == 0;
  if (args.num_rows > kAmxRows) {
    return is_first ? MultiplyCompressed<2, 2, 0>(args) : MultiplyCompressed<2, 2, 1>(args);
  }
  return is_first ? MultiplyCompressed<1, 2, 0>(args) : MultiplyCompressed<1, 2, 1>(args);
}

constexpr TileSet MakeAmxTileSet() {
  TileSet set = {};
  set.layout = ActivationLayout::kBlocks;
  set.max_rows = 2 * kAmxRows;
  set.row_multiple = kAmxRows;
  for (int rows = 1; rows <= set.max_rows; ++rows) {
    set.tiles[rows] = AmxTile;
    set.compressed[rows] = AmxCompressedTile;
    // Four registers of sums: 16 rows of all columns, or 32 of half of them.
    set.num_columns[rows] = rows > kAmxRows ? kPanelFeatures / 2 : kPanelFeatures;
    set.num_passes[rows] = 1;
  }
  set.store_f32 = StoreTile<float>;
  set.store_bf16 = StoreTile<BFloat16>;
  return set;
}

}  // namespace

constexpr TileSet kAmxBf16Tiles = MakeAmxTileSet();

}  // namespace quire::cpu
