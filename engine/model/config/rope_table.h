// RopeTable: the cosines and sines of the rotary embedding, for every position at once, and what
// multiplies queries. Computed in double and rounded once. Made at start; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/config/model_config.h"

namespace quire {

// What the scaling of a RopeConfig comes to.
struct RopeFrequencies {
  std::vector<double> radians_per_token;  // [rotary_dim / 2]
  double attention_factor = 1.0;          // multiplies every cosine and sine
};

// For sequences of up to max_model_len tokens: dynamic and longrope scale every position by what
// that length asks for, so that a token's embedding never depends on how long its sequence became.
RopeFrequencies ComputeRopeFrequencies(const RopeConfig& rope, int64_t max_model_len);

// What somebody who compares answers should know: that the length stretches every position, so that
// short texts, too, come out otherwise than with a shorter context. Empty where it does not.
std::string RopeStretchNote(const RopeConfig& rope, int64_t max_model_len);

// Writes [num_positions, rotary_dim]: cosines in the first half of each row, sines in the second.
void FillRopeTable(const RopeFrequencies& frequencies, int64_t num_positions, float* cos_sin);

// Writes [num_positions]: what rotated queries are multiplied by.
void FillQueryScales(const RopeConfig& rope, int64_t num_positions, float* scales);

}  // namespace quire
