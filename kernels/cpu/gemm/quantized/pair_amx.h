// Rows of bfloat16 times quantized weights in steps of pairs (pair_steps.h), by AMX. A row's sums
// have one order whatever the number of rows. Plain functions; any thread; x86 only.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/quantized/pair_steps.h"

namespace quire::cpu {

// Rows and a panel that they are multiplied with.
struct PairRows {
  const QuantizedLayout* layout;
  const PairSteps* steps;
  const char* panel;
  const void* x;  // of all blocks, ActivationLayout::kBlocks
  int num_rows;
  const float* span_sums;   // of the first span, one of each row; null without zero points
  int64_t span_sum_stride;  // from one span to the next
  float* out;               // [num_rows, kPanelFeatures]
};

// Up to kAmxRows rows: a block of steps is expanded, then multiplied.
// `read_ahead`: bytes ahead of itself that it fetches; 0: none.
void PairAmxTile(const PairRows& rows, int64_t read_ahead);

// Blocks that were expanded for several tiles.
struct PairSlice {
  const uint32_t* blocks;  // [num_blocks * kBlockSteps, kPanelFeatures] pairs
  int64_t first_block;
  int64_t num_blocks;
};

// Up to 2 * kAmxRows rows. `carry` [num_rows, kPanelFeatures] has a span's sums from slice to
// slice; those of whole spans go to rows.out.
void PairAmxSlice(const PairRows& rows, const PairSlice& slice, float* carry);

}  // namespace quire::cpu
