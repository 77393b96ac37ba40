// GemmKernel: what an instruction set provides to Gemm: register tiles over one panel of packed
// weights. Constant tables of functions; any thread.
#pragma once

#include <cstdint>

#include "kernels/cpu/compression.h"
#include "kernels/cpu/isa.h"

namespace quire::cpu {

// What several passes over a panel fetch into the L2 cache meanwhile: `lines` cache lines for each
// step that all `num_passes` passes have taken, evenly, since a burst would fill the processor's
// buffers and hold up what it computes.
struct Prefetch {
  const char* next;
  int lines;
  int num_passes;
  int due = 0;  // in parts of a line, num_passes each

  // One step of one pass.
  inline __attribute__((always_inline)) void Step() {
    for (due += lines; due >= num_passes; due -= num_passes) {
      __builtin_prefetch(next, 0, 2);
      next += 64;
    }
  }
};

// Steps [first, first + num_steps) of a compressed panel.
struct CompressedSteps {
  const CompressedPanel* panel;
  int64_t first;
  ExceptionRange exceptions;  // from `first` on
  char* expanded;             // several passes leave packed steps here, for further tiles
};

// One tile: the products of num_rows packed rows of activations with one panel of weights.
// Activations are packed step by step: the values of row 0, row 1, ... of the tile for step 0, then
// for step 1. float32: one float each; bfloat16: the pair of a step, as two bfloat16 or two floats
// (GemmKernel::bf16_pairs).
struct TileArgs {
  const void* activations;
  const void* weights;         // packed steps, or
  CompressedSteps compressed;  // for GemmKernel::compressed
  Prefetch* prefetch;          // nothing is fetched with a single pass
  int64_t num_steps;
  bool add;    // to what `out` holds from the steps before
  float* out;  // [num_rows, kPanelFeatures]
};
using TileFn = void (*)(const TileArgs&);

// The end of a tile: out = tile + bias for the first num_cols columns, float32 or bfloat16.
struct StoreArgs {
  const float* tile;  // [num_rows, kPanelFeatures]
  const float* bias;  // [kPanelFeatures]
  int num_rows;
  int num_cols;
  void* out;  // rows `row_stride` elements apart
  int64_t row_stride;
};
using StoreFn = void (*)(const StoreArgs&);

inline constexpr int kMaxTileRows = 14;

struct GemmKernel {
  int max_rows;     // rows of the largest tile
  bool bf16_pairs;  // multiplies pairs of bfloat16; otherwise they are widened when packed
  TileFn f32[kMaxTileRows + 1];  // [num_rows]; null for 0 and above max_rows
  TileFn bf16[kMaxTileRows + 1];
  int num_passes[kMaxTileRows + 1];     // of a tile over its panel
  TileFn compressed[kMaxTileRows + 1];  // null: weights are not compressed
  StoreFn store_f32;
  StoreFn store_bf16;
};

extern const GemmKernel kGemmGeneric;
#if defined(__x86_64__)
extern const GemmKernel kGemmAvx2;
extern const GemmKernel kGemmAvx512;
extern const GemmKernel kGemmAvx512Bf16;
#endif

const GemmKernel& GemmKernelFor(Isa isa);  // the ISA must be supported here

}  // namespace quire::cpu
