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
#include "kernels/cpu/gemm/expand_avx512-inl.h"
#include "kernels/cpu/gemm/gemm_kernel-inl.h"

namespace quire::cpu {

namespace {

// Calls f(std::integral_constant<int, i>) for i in [0, kCount).
template <int kCount, class F>
inline __attribute__((always_inline)) void Unrolled(F f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (f(std::integral_constant<int, kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

// The sums of kA registers of rows and kB registers of columns: registers 0 to 3. Those that follow
// are activations, those after them weights, in turn.
template <int kA, int kB>
struct Sums {
  static_assert(kA * kB <= 4);
  static constexpr int Register(int a, int b) { return a * kB + b; }
  static constexpr int X(int a) { return 4 + a; }
  static constexpr int Weights(int b) { return 4 + kA + b % (4 - kA); }

  static float* At(const TileArgs& args, int a, int b) {
    return args.out + a * kAmxRows * kPanelFeatures + args.first_column + b * kAmxColumns;
  }

  static void Configure(int num_rows) {
    AmxConfiguration config;
    for (int a = 0; a < kA; ++a) {
      const auto rows = static_cast<uint8_t>(std::min(num_rows - a * kAmxRows, kAmxRows));
      config.num_rows[X(a)] = rows;
      for (int b = 0; b < kB; ++b) config.num_rows[Register(a, b)] = rows;
    }
    AmxConfigure(config);
  }

  static void Open(const TileArgs& args) {
    Configure(args.num_rows);
    Unrolled<kA>([&](auto a) {
      Unrolled<kB>([&](auto b) {
        constexpr int kRegister = Register(a, b);
        if (args.add) {
          AmxLoad<kRegister>(At(args, a, b), kPanelFeatures * sizeof(float));
        } else {
          AmxZero<kRegister>();
        }
      });
    });
  }

  // Adds a block's products: activations of all rows one after the other, weights kStepBytes apart.
  // Calls on_column() before each register of columns.
  template <class F>
  static inline __attribute__((always_inline)) void Add(const char* x, const char* weights,
                                                        F on_column) {
    Unrolled<kA>([&](auto a) { AmxLoad<X(a)>(x + a * kAmxRows * kAmxRowBytes, kAmxRowBytes); });
    Unrolled<kB>([&](auto b) {
      on_column();
      AmxLoad<Weights(b)>(weights + b * kAmxRowBytes, kStepBytes);
      Unrolled<kA>([&](auto a) { AmxMulAdd<Register(a, b), X(a), Weights(b)>(); });
    });
  }

  static void Close(const TileArgs& args) {
    Unrolled<kA>([&](auto a) {
      Unrolled<kB>([&](auto b) {
        AmxStore<Register(a, b)>(At(args, a, b), kPanelFeatures * sizeof(float));
      });
    });
    AmxRelease();
  }
};

template <int kA, int kB>
void MultiplyPacked(const TileArgs& args) {
  Sums<kA, kB>::Open(args);
  const char* x = static_cast<const char*>(args.activations);
  const char* weights = static_cast<const char*>(args.weights) + args.first_column * sizeof(float);
  Prefetch prefetch = *args.prefetch;
  const auto fetch = [&] { prefetch.Step(kBlockSteps / kB); };
  int64_t step = 0;
  for (; step + kBlockSteps <= args.num_steps; step += kBlockSteps) {
    Sums<kA, kB>::Add(x, weights + step * kStepBytes, fetch);
    x += args.num_rows * kAmxRowBytes;
  }
  if (step < args.num_steps) {
    alignas(64) char last[kBlockSteps * kStepBytes] = {};
    for (int i = 0; step + i < args.num_steps; ++i) {
      std::memcpy(last + i * kStepBytes, weights + (step + i) * kStepBytes, kB * kAmxRowBytes);
    }
    Sums<kA, kB>::Add(x, last, fetch);
  }
  *args.prefetch = prefetch;
  Sums<kA, kB>::Close(args);
}

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
  if (args.num_columns == kPanelFeatures) return MultiplyPacked<1, 4>(args);
  if (args.num_rows > kAmxRows) return MultiplyPacked<2, 2>(args);
  return MultiplyPacked<1, 2>(args);
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
