// Quantized weights and activations in bfloat16 as the tile for bfloat16 weights takes them
// (gemm_kernel.h), in steps of two columns. The conversion is exact: a code of up to 8 bits is a
// bfloat16, and so is a floating-point code times a scale of 8 bits. Where scales are float32, the
// products are summed up group by group, and the sums are multiplied with the scales. Plain
// functions; any thread.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/cpu/gemm/quantized/quantized_panel.h"

namespace quire::cpu {

// Which steps a panel has: spans of columns that are summed up together, each padded to whole
// blocks of kBlockSteps steps. A unit's columns i and i + unit_columns / 2 are a step.
struct PairSteps {
  explicit PairSteps(const QuantizedLayout& layout);

  bool has_scaled_values;  // so there is one span; else each group is one
  int64_t num_spans;
  int64_t unit_steps;  // 2 or 4
  int64_t span_units;  // of all spans but perhaps the last
  int64_t last_span_units;
  int64_t span_blocks;  // of all spans but perhaps the last
  int64_t num_blocks;

  int64_t UnitsOf(int64_t span) const {
    return span + 1 < num_spans ? span_units : last_span_units;
  }
  int64_t FirstBlockOf(int64_t span) const {
    return span < num_spans ? span * span_blocks : num_blocks;
  }
  int64_t SpanOf(int64_t block) const { return block / span_blocks; }
};

// The values of blocks [first_block, first_block + num_blocks); zeros where a span's last one ends
// early.
struct ExpandBlocksArgs {
  const QuantizedLayout* layout;
  const PairSteps* steps;
  const char* panel;
  int64_t first_block;
  int64_t num_blocks;
  int64_t read_ahead;  // bytes ahead of itself that it fetches; 0: none
  uint32_t* out;       // [num_blocks * kBlockSteps, kPanelFeatures] pairs
};
void ExpandBlocks(const ExpandBlocksArgs& args);

// A row of activations, and what zero points are multiplied with.
struct PackStepsArgs {
  const PairSteps* steps;
  const BFloat16* row;   // [num_blocks * kBlockSteps * 2], see PlaceColumns
  int64_t block_stride;  // bytes from one block of this row to the next
  char* out;             // a block has a cache line of each row
  int64_t sum_stride;    // floats
  float* span_sums;      // of the columns of each span; null: not wanted
};
void PackSteps(const PackStepsArgs& args);

// The columns of x, in the weight's order if it has one, where their span's steps are; zeros
// between spans.
void PlaceColumns(const QuantizedLayout& layout, const PairSteps& steps, const BFloat16* x,
                  const int32_t* order, BFloat16* out);

// out = sums * scale, or adds it, where a span with zero points has sums of x * (code - middle).
struct ScaleSumsArgs {
  const QuantizedLayout* layout;
  const PairSteps* steps;
  const char* panel;
  int64_t span;
  int64_t num_rows;
  const float* sums;       // [num_rows, kPanelFeatures]
  const float* span_sums;  // [num_rows]; null without zero points
  float* out;              // [num_rows, kPanelFeatures]
};
void ScaleSums(const ScaleSumsArgs& args);

}  // namespace quire::cpu
