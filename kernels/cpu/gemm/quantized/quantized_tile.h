// The products of rows of activations with one panel of a quantized weight (quantized_panel.h).
// Each output is
//   sum over groups of scale * (sum over the group's columns of x * code + offset * sum of x)
// in float32, in the order of the columns, whatever the number of rows, so a row's bits never
// depend on its neighbours. `offset` is the middle of the codes less the zero point. Few rows
// multiply the codes in registers; many have the tile for float32 weights (gemm_kernel.h) multiply
// codes that were expanded once for all of them: the same chain of multiply-adds. Plain functions;
// any thread.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/quantized/quantized_panel.h"

namespace quire::cpu {

inline constexpr int64_t kMaxFusedRows = 4;

struct QuantizedTileArgs {
  const QuantizedLayout* layout;
  const char* panel;
  // Of columns sorted by group, each group padded with zeros to whole units.
  const float* x;       // [padded_columns, num_rows]
  const float* x_sums;  // [num_groups, num_rows], of weights with zero points
  int num_rows;         // 1 to kMaxFusedRows
  int64_t read_ahead;   // bytes ahead of itself that it fetches; 0: none
  float* out;           // [num_rows, kPanelFeatures]
};
void RunQuantizedTile(const QuantizedTileArgs& args);

// Codes of units as float32, as the tile for float32 weights takes them:
// [num_units * unit_columns, kPanelFeatures].
void ExpandUnits(const QuantizedLayout& layout, const uint32_t* words, int64_t num_units,
                 float* out);

// out += scale * (part + offset * sum of x), for one group.
struct AddGroupArgs {
  const QuantizedLayout* layout;
  const char* panel;
  int64_t group;
  const float* part;    // [num_rows, kPanelFeatures]
  const float* x_sums;  // [num_rows] of the group, of weights with zero points
  int64_t num_rows;
  float* out;  // [num_rows, kPanelFeatures]
};
void AddGroup(const AddGroupArgs& args);

}  // namespace quire::cpu
