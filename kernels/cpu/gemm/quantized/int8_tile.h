// Int8Tile: the products of a few rows of int8 activations with one panel of int8 weights: sums of
// integers, exact, so that every instruction set computes the same. Plain functions; any thread.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/quantized/quantized_panel.h"
#include "kernels/cpu/runtime/isa.h"

namespace quire::cpu {

inline constexpr int kMaxInt8Rows = 4;

struct Int8TileArgs {
  const uint32_t* words;  // units of a panel, one after the other
  int64_t num_units;
  const uint8_t* x;  // [height, 4 * num_units]: 128 more than the value
  int height;        // at most kMaxInt8Rows
  int64_t read_ahead;
  int32_t* out;  // [height, kPanelFeatures]
};
using Int8TileFn = void (*)(const Int8TileArgs&);

// The best that this processor has and `isa` allows.
Int8TileFn Int8TileFor(Isa isa);

}  // namespace quire::cpu
