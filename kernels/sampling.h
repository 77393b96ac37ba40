// Arguments of the two sampling operations of kernels/ops.h. What a row draws depends on its seed
// and position alone, never on its neighbours. Order as in Hugging Face's generate: penalties,
// logit bias and bans, then (unless greedy) temperature, top-k, top-p, min-p.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"

namespace quire {

inline constexpr int kMaxLogprobs = 20;  // alternatives reported per token at most

// What to do with one row of logits; uploaded with the step's metadata. 64 bytes.
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
  int32_t num_logprobs = -1;        // -1: none; k: the token's own and the k most likely
  int32_t bias_begin = 0;           // half-open range in SampleArgs::bias
  int32_t bias_end = 0;
  uint64_t seed = 0;     // key of the counter-based generator
  int64_t position = 0;  // its counter: index of this token in the sequence
};
static_assert(sizeof(SamplingRow) == 64);

struct LogitBias {
  int32_t token;
  float bias;  // added to the logit; -infinity bans the token
};

// token_counts holds, per token, the times it was generated, plus kPromptTokenBit if it is in the
// prompt.
inline constexpr int32_t kPromptTokenBit = 1 << 30;

// Sets token_counts of one row from its tokens; runs when a sequence that uses penalties gets its
// row.
struct ResetTokenCountsArgs {
  int32_t row;
  const int32_t* tokens;  // [num_tokens], the prompt first
  int64_t num_tokens;
  int64_t num_prompt_tokens;
  int32_t* token_counts;  // [max_num_seqs, vocab_size]
  int64_t vocab_size;
};

struct SampleArgs {
  Tensor logits;            // [num_rows, vocab_size] float32; may be overwritten
  const SamplingRow* rows;  // [num_rows]
  const LogitBias* bias;    // the rows' ranges
  int32_t* token_counts;    // [max_num_seqs, vocab_size]; read and updated for rows with penalties
  int32_t* row_last_token;  // [max_num_seqs]; set for every row >= 0 that samples
  int32_t* sampled_ids;     // [num_rows]; the target for scoring rows, -1 for padding
  float*
      sampled_logprobs;  // [num_rows], natural log of the unmodified softmax; if num_logprobs >= 0
  int32_t* sampled_ranks;  // [num_rows], 1 = most likely; if num_logprobs >= 0
  int32_t* top_ids;        // [num_rows, kMaxLogprobs], most likely first
  float* top_logprobs;     // [num_rows, kMaxLogprobs]
};

constexpr bool UsesPenalties(const SamplingRow& row) {
  return row.repetition_penalty != 1.0f || row.presence_penalty != 0.0f ||
         row.frequency_penalty != 0.0f;
}

}  // namespace quire
