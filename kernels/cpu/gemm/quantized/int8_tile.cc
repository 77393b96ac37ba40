#include "kernels/cpu/gemm/quantized/int8_tile.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire::cpu {

namespace {

// The first row's bytes of a unit; those of the next row are kInt8BlockBytes later.
inline __attribute__((always_inline)) const uint8_t* UnitOfX(const Int8TileArgs& args,
                                                             int64_t num_rows, int64_t unit) {
  return args.x + unit / kInt8BlockUnits * num_rows * kInt8BlockBytes + unit % kInt8BlockUnits * 4;
}

// Written so that compilers vectorise it over the features.
inline __attribute__((always_inline)) void AddDots(const Int8TileArgs& args) {
  std::fill_n(args.out, args.num_rows * kPanelFeatures, 0);
  for (int64_t unit = 0; unit < args.num_units; ++unit) {
    const uint32_t* words = args.words + unit * kPanelFeatures;
    for (int r = 0; r < args.num_rows; ++r) {
      const uint8_t* x = UnitOfX(args, args.num_rows, unit) + r * kInt8BlockBytes;
      const int32_t x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
      int32_t* out = args.out + r * kPanelFeatures;
      for (int64_t f = 0; f < kPanelFeatures; ++f) {
        const auto word = static_cast<int32_t>(words[f]);
        out[f] += x0 * static_cast<int8_t>(word) + x1 * static_cast<int8_t>(word >> 8) +
                  x2 * static_cast<int8_t>(word >> 16) + x3 * (word >> 24);
      }
    }
  }
}

void GenericTile(const Int8TileArgs& args) { AddDots(args); }

#if defined(__x86_64__)

__attribute__((target("avx2"))) void Avx2Tile(const Int8TileArgs& args) { AddDots(args); }
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) void Avx512Tile(
    const Int8TileArgs& args) {
  AddDots(args);
}

template <int kRows>
__attribute__((target("avx512f,avx512bw,avx512vnni"))) void VnniRows(const Int8TileArgs& args) {
  constexpr int kVectors = kPanelFeatures / 16;
  __m512i sums[kRows][kVectors];
  for (auto& row : sums) {
    for (__m512i& sum : row) sum = _mm512_setzero_si512();
  }
  const uint32_t* words = args.words;
  for (int64_t unit = 0; unit < args.num_units; ++unit) {
    const uint8_t* x = UnitOfX(args, kRows, unit);
    __m512i w[kVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) {
      w[c] = _mm512_loadu_si512(words + c * 16);
      if (args.read_ahead > 0) __builtin_prefetch(words + c * 16 + args.read_ahead / 4, 0, 2);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, x + r * kInt8BlockBytes, sizeof(four));
      const __m512i xr = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) sums[r][c] = _mm512_dpbusd_epi32(sums[r][c], xr, w[c]);
    }
    words += kPanelFeatures;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) {
      _mm512_storeu_si512(args.out + r * kPanelFeatures + c * 16, sums[r][c]);
    }
  }
}

void VnniTile(const Int8TileArgs& args) {
  switch (args.num_rows) {
    case 1:
      return VnniRows<1>(args);
    case 2:
      return VnniRows<2>(args);
    case 3:
      return VnniRows<3>(args);
    default:
      return VnniRows<4>(args);
  }
}

Int8TileFn VectorTileFor(Isa isa) {
  if (isa >= Isa::kAvx512 && __builtin_cpu_supports("avx512vnni")) return VnniTile;
  if (isa >= Isa::kAvx512) return Avx512Tile;
  return isa == Isa::kAvx2 ? Avx2Tile : GenericTile;
}

#endif

}  // namespace

Int8Kernel Int8KernelFor(Isa isa) {
#if defined(__x86_64__)
  return {.vector_tile = VectorTileFor(isa),
          .amx_tile = isa == Isa::kAmxBf16 && HasAmxInt8() ? Int8AmxTile : nullptr};
#else
  (void)isa;
  return {.vector_tile = GenericTile, .amx_tile = nullptr};
#endif
}

}  // namespace quire::cpu
