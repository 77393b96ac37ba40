// RopeTable: the cosines and sines of the rotary embedding, for every position at once, and the
// factors that multiply queries. Computed in double and rounded once. Made at start; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/config/model_config.h"

namespace quire {

// The effect of a RopeConfig's scaling.
struct RopeFrequencies {
  std::vector<double> radians_per_token;  // [rotary_dim / 2]
  double attention_factor = 1.0;          // multiplies every cosine and sine
};

// For sequences of up to max_model_len tokens: dynamic and longrope scale every position by the
// factor for that length, so that a token's embedding never depends on the length of its sequence.
RopeFrequencies ComputeRopeFrequencies(const RopeConfig& rope, int64_t max_model_len);

// A sentence for users who compare answers: the length stretches every position, so that answers to
// short texts, too, differ from those with a shorter context. Empty if the length does not.
std::string RopeStretchNote(const RopeConfig& rope, int64_t max_model_len);

// Writes [num_positions, rotary_dim]: cosines in the first half of each row, sines in the second.
void FillRopeTable(const RopeFrequencies& frequencies, int64_t num_positions, float* cos_sin);

// Writes [num_positions]: the factors by which rotated queries are multiplied.
void FillQueryScales(const RopeConfig& rope, int64_t num_positions, float* scales);

}  // namespace quire
