// Arguments of the two sampling operations of kernels/ops.h. The token that a row draws depends
// only on the row, its seed and its position, never on its neighbours. Order as in Hugging Face's
// generate: penalties, logit bias and bans, the mask, then (unless greedy) temperature, top-k,
// top-p, min-p.
//
// A row with a mask draws a token of its mask, whatever the rest of the row says. If penalties,
// bias and bans leave all tokens of the mask at -infinity, the row takes the token of the mask with
// the greatest untouched logit, at any temperature; of equal ones the lowest id. A mask that allows
// every token changes nothing. Logprobs, ranks and the most likely tokens are those of the
// untouched logits, as if the row had no mask. A NaN breaks its row, even outside the mask.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/sampling_row.h"

namespace quire {

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

// The largest vocabulary that can be sampled from; the largest published ones have some 262,000
// tokens. A GPU's kernel keeps notes of a whole row in shared memory.
inline constexpr int64_t kMaxVocabSize = 1 << 20;

// The id of a row with a logit that is NaN: nothing is drawn, reported or counted, and the row's
// last token becomes 0, so that a step that is under way already reads an id.
inline constexpr int32_t kBrokenLogitsId = -2;

struct SampleArgs {
  Tensor logits;            // [num_rows, vocab_size] float32; may be overwritten
  const SamplingRow* rows;  // [num_rows]
  const LogitBias* bias;    // the rows' ranges
  // [num_masks, MaskWords(vocab_size)]; null if no row has a mask. Each mask allows at least one
  // token; bits beyond the vocabulary do not count. Rows that score a target do not read theirs.
  const uint32_t* token_masks;
  int32_t* token_counts;    // [max_num_seqs, vocab_size]; read and updated for rows with penalties
  int32_t* row_last_token;  // [max_num_seqs]; set for every row >= 0 that samples
  // [num_rows]; the target for scoring rows, -1 for padding, kBrokenLogitsId
  int32_t* sampled_ids;
  float*
      sampled_logprobs;  // [num_rows], natural log of the unmodified softmax; if num_logprobs >= 0
  int32_t* sampled_ranks;  // [num_rows], 1 = most likely; if num_logprobs >= 0
  int32_t* top_ids;        // [num_rows, kMaxLogprobs], most likely first
  float* top_logprobs;     // [num_rows, kMaxLogprobs]
};

}  // namespace quire
