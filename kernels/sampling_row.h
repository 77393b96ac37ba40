// The settings with which one row of logits is sampled: the part of kernels/sampling.h without
// tensors. Plain values.
#pragma once

#include <cstdint>

namespace quire {

inline constexpr int kMaxLogprobs = 20;  // alternatives reported per token at most

// How one row of logits is sampled; uploaded with the step's metadata. 64 bytes.
struct SamplingRow {
  int32_t row = -1;     // persistent row of the sequence: penalty counts, last token; -1 = padding
  int32_t target = -1;  // >= 0: sample nothing, report this token's logprob (prompt logprobs)
  float temperature = 1.0f;         // 0 = greedy
  int32_t top_k = 0;                // 0 = off
  float top_p = 1.0f;               // 1 = off
  float min_p = 0.0f;               // 0 = off
  float repetition_penalty = 1.0f;  // 1 = off; over prompt and generated tokens
  float presence_penalty = 0.0f;    // over generated tokens
  float frequency_penalty = 0.0f;   // over generated tokens
  int16_t num_logprobs = -1;        // -1: none; k: the token's own and the k most likely
  int16_t num_bias = 0;             // of SampleArgs::bias, from bias_begin on
  int32_t bias_begin = 0;
  int32_t mask = -1;     // index in SampleArgs::token_masks; -1: every token may be drawn
  uint64_t seed = 0;     // key of the counter-based generator
  int64_t position = 0;  // its counter: index of this token in the sequence
};
static_assert(sizeof(SamplingRow) == 64);

struct LogitBias {
  int32_t token;
  float bias;  // added to the logit; -infinity bans the token
};

constexpr int32_t BiasEnd(const SamplingRow& row) { return row.bias_begin + row.num_bias; }

// The 32-bit words of one mask of tokens: bit t % 32 of word t / 32 is set if token t may be drawn.
constexpr int64_t MaskWords(int64_t vocab_size) { return (vocab_size + 31) / 32; }

constexpr bool UsesPenalties(const SamplingRow& row) {
  return row.repetition_penalty != 1.0f || row.presence_penalty != 0.0f ||
         row.frequency_penalty != 0.0f;
}

}  // namespace quire
