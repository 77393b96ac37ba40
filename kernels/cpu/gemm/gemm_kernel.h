// GemmKernel: what an instruction set provides to Gemm: tiles, of a few rows, over one panel of
// packed weights. Constant tables of functions; any thread.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/cpu/gemm/compression.h"
#include "kernels/cpu/runtime/isa.h"

namespace quire::cpu {

// The lines that the passes over a panel fetch into the L2 cache meanwhile: `lines` cache lines for
// each step that all `num_passes` passes have taken. The passes spread them as evenly as they can,
// since a burst would fill the processor's buffers and hold up what it computes.
struct Prefetch {
  const char* next;
  int lines;
  int num_passes;
  int due = 0;  // in parts of a line, num_passes each

  // Steps of one pass.
  inline __attribute__((always_inline)) void Step(int num_steps = 1) {
    for (due += lines * num_steps; due >= num_passes; due -= num_passes) {
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

// How the activations of a tile's rows are packed.
enum class ActivationLayout : uint8_t {
  // Step by step: the values of row 0, row 1, ... for step 0, then for step 1.
  kFloats,   // float32: one float each
  kPairs,    // bfloat16: the pair of a step
  kWidened,  // bfloat16: the pair of a step as two floats
  // bfloat16, kBlockSteps steps at a time, zeros in those that the last block lacks: the pairs of
  // row 0, then those of row 1, ...
  kBlocks,
};

inline constexpr int64_t kBlockSteps = 16;  // a cache line of a row

// One tile: the products of num_rows packed rows of activations with columns of one panel.
struct TileArgs {
  const void* activations;
  const void* weights;         // packed steps, or
  CompressedSteps compressed;  // for TileSet::compressed
  Prefetch* prefetch;
  int64_t num_steps;
  bool add;    // to what `out` holds from the steps before
  float* out;  // [num_rows, kPanelFeatures]
  int num_rows;
  // The columns to multiply. Register tiles multiply all of them, and know their number of rows.
  int first_column;
  int num_columns;
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

// The bias of num_cols features from `first` on to out [kPanelFeatures]; 0 beyond them, and where
// there is none.
void BiasOfPanel(const Tensor& bias, int64_t first, int64_t num_cols, float* out);

inline constexpr int kMaxTileRows = 32;

// The tiles for weights of one data type.
struct TileSet {
  ActivationLayout layout;
  int max_rows;                    // of a tile
  int row_multiple;                // tiles begin at such rows: fewer rows than that take as long
  TileFn tiles[kMaxTileRows + 1];  // [num_rows]; null for 0 and above max_rows
  TileFn compressed[kMaxTileRows + 1];  // null: weights are not compressed
  int num_columns[kMaxTileRows + 1];    // that a call multiplies; the highest tile decides
  int num_passes[kMaxTileRows + 1];     // of a call over its steps
  StoreFn store_f32;
  StoreFn store_bf16;
};

struct GemmKernel {
  const TileSet* f32;
  const TileSet* bf16;
};

extern const TileSet kGenericF32Tiles, kGenericBf16Tiles;
#if defined(__x86_64__)
extern const TileSet kAvx2F32Tiles, kAvx2Bf16Tiles;
extern const TileSet kAvx512F32Tiles, kAvx512Bf16Tiles;
extern const TileSet kAvx512PairsBf16Tiles;  // by vdpbf16ps
extern const TileSet kAmxBf16Tiles;
#endif

GemmKernel GemmKernelFor(Isa isa);  // the ISA must be supported here

}  // namespace quire::cpu
