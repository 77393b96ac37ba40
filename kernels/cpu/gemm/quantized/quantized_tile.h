// The products of rows of activations with one panel of a quantized weight (quantized_panel.h).
// Each output is a sum of x * w in float32, in the order of the columns, whatever the number of
// rows, so a row's bits never depend on its neighbours; w is the value that a code stands for,
// rounded to float32 once. Few rows multiply the values in registers; many have the tile for
// float32 weights (gemm_kernel.h) multiply values that were expanded once for all of them: the same
// chain of multiply-adds. Plain functions; any thread.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/quantized/quantized_panel.h"

namespace quire::cpu {

inline constexpr int64_t kMaxFusedRows = 8;

struct QuantizedTileArgs {
  const QuantizedLayout* layout;
  const char* panel;
  // The columns are sorted by group, and each group is padded with zeros to whole units.
  const float* x;      // [padded_columns, num_rows]
  int num_rows;        // 1 to kMaxFusedRows
  int64_t read_ahead;  // bytes ahead of itself that it fetches; 0: none
  float* out;          // [num_rows, kPanelFeatures]
};
void RunQuantizedTile(const QuantizedTileArgs& args);

// Values of units [first_unit, first_unit + num_units) of a group, as the tile for float32 weights
// takes them: [num_units * unit_columns, kPanelFeatures].
struct ExpandUnitsArgs {
  const QuantizedLayout* layout;
  const char* panel;
  int64_t group;
  int64_t first_unit;
  int64_t num_units;
  int64_t read_ahead;  // bytes ahead of itself that it fetches; 0: none
  float* out;
};
void ExpandUnits(const ExpandUnitsArgs& args);

}  // namespace quire::cpu
