// Int8Tile: the products of a few rows of int8 activations with one panel of int8 weights: sums of
// integers, exact, so that every instruction set computes the same. Plain functions; any thread.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/quantized/quantized_panel.h"
#include "kernels/cpu/runtime/isa.h"

namespace quire::cpu {

inline constexpr int kInt8VectorRows = 4;  // at most, of a tile
inline constexpr int kInt8AmxRows = 32;

// x by blocks of columns, a cache line of each row.
inline constexpr int64_t kInt8BlockUnits = 16;
inline constexpr int64_t kInt8BlockBytes = 4 * kInt8BlockUnits;

struct Int8TileArgs {
  const uint32_t* words;  // units of a panel, one after the other
  int64_t num_units;
  // 128 more than the values: [blocks of kInt8BlockUnits, num_rows, kInt8BlockBytes]. The last
  // block may hold anything beyond num_units.
  const uint8_t* x;
  int num_rows;
  int64_t read_ahead;
  int32_t* out;  // [num_rows, kPanelFeatures]
};
using Int8TileFn = void (*)(const Int8TileArgs&);

// The tile for few rows, which memory bounds, and the tile for more rows.
struct Int8Kernel {
  Int8TileFn vector_tile;  // of up to kInt8VectorRows rows
  Int8TileFn amx_tile;     // of up to kInt8AmxRows rows; null: there is none
};

// The best that this processor has and `isa`, which is supported here, allows.
Int8Kernel Int8KernelFor(Isa isa);

#if defined(__x86_64__)
void Int8AmxTile(const Int8TileArgs& args);
#endif

}  // namespace quire::cpu
