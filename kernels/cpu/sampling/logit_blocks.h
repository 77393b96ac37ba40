// The passes over a whole row of logits that sampling is made of, in SIMD. A row is cut into blocks
// of kLogitBlock; what later steps need (the maximum, the k largest, where a cumulative sum falls)
// is found from one number per block, and then within few blocks. Compiled once per SIMD target.
// Any thread.
#pragma once

#include <cstdint>

#include "kernels/base/types.h"

namespace quire::cpu {

inline constexpr int64_t kLogitBlock = 64;

constexpr int64_t NumLogitBlocks(int64_t num_logits) { return CeilDiv(num_logits, kLogitBlock); }

// Replaces NaN by -infinity and +infinity by the largest float, in place, and finds each block's
// maximum. Returns whether there was a NaN.
bool CleanLogits(float* logits, int64_t num_logits, float* block_max);

// weights[i] = exp((logits[i] - max) * inverse_temperature).
void LogitWeights(const float* logits, int64_t num_logits, float max, float inverse_temperature,
                  float* weights);

// The sum of these weights over each block.
void SumLogitWeights(const float* logits, int64_t num_logits, float max, float inverse_temperature,
                     float* block_sum);

// How many logits are greater than `value`.
int64_t CountGreater(const float* logits, int64_t num_logits, float value);

}  // namespace quire::cpu
