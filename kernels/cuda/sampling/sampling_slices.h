// The first of sampling's two kernels: reads all logits once, one CTA per row and slice of kSlice
// tokens, and leaves what the second one (sampling.cu) starts from. A slice is made of segments of
// kSegment tokens, what a warp loads at once. Slices and segments depend only on the vocabulary's
// size, and a slice is summed in a fixed order, so a row's draw never depends on its batch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/sampling.h"

namespace quire::cuda {

inline constexpr int kSegment = 128;
inline constexpr int kSegmentsPerSlice = 32;
inline constexpr int kSlice = kSegment * kSegmentsPerSlice;

struct SliceSummary {
  uint32_t
      segment_keys[kSegmentsPerSlice];  // of each segment's greatest logit; 0 beyond the vocabulary
  float max;                            // NaN where one of the slice's logits is
  int32_t max_id;                       // the lowest
  float sum;  // of exp2((logit - max) * scale); unset where NeedsWeights is false
};

// Whether the weights of all of a row's tokens count in its draw.
constexpr bool NeedsWeights(const SamplingRow& row, int32_t vocab_size) {
  return row.temperature > 0 && (row.top_k <= 0 || row.top_k >= vocab_size);
}

// summaries: [rows][2][slices]: the row's logits after penalties, bias and mask, with their weights
// at the row's temperature (rows that sample), and untouched ones at temperature 1 (rows that
// report logprobs).
void LaunchSummariseSlices(const SampleArgs& args, SliceSummary* summaries, cudaStream_t stream);

}  // namespace quire::cuda
