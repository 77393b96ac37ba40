// Which tokens of a row top-k, top-p and min-p keep, found without sorting the row. Tokens rank by
// logit, highest first, equal ones by id; each filter keeps a first part of that ranking. Plain
// functions on one row; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/sampling/logit_blocks.h"

namespace quire::cpu {

struct Candidate {
  float logit;
  float weight;  // exp((logit - max) / temperature)
  int32_t id;
};

inline bool RanksBefore(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Row memory that grows to the largest vocabulary seen; one per thread.
struct SamplingScratch {
  std::vector<float> block_max;  // of the row
  std::vector<float> edited;     // the row after penalties, bias and mask
  std::vector<float> edited_block_max;
  std::vector<float> block_sum;  // of weights
  std::vector<float> values;
  std::vector<Candidate> candidates;
  std::vector<Candidate> slice;

  void Resize(int64_t vocab_size);
};

// A row after CleanLogits, with its blocks' maxima.
struct LogitRow {
  const float* logits;
  int64_t vocab_size;
  const float* block_max;
  float max;  // of all
};

LogitRow MakeLogitRow(const float* logits, int64_t vocab_size, const float* block_max);

// The lowest id of the greatest logit.
int32_t ArgMax(const LogitRow& row);

// The k-th greatest logit, 1 <= k <= vocab_size.
float KthLargest(const LogitRow& row, int64_t k, std::vector<float>& scratch);

// Appends the tokens whose logit is at least `floor`, by ascending id; weights are left unset.
void CollectFrom(const LogitRow& row, float floor, std::vector<Candidate>& candidates);

struct SamplingFilter {
  float inverse_temperature;
  int64_t top_k;  // 0 = off
  float top_p;    // 1 = off
  float min_p;    // 0 = off
};

// Fills scratch.candidates with the tokens that a filter which is not off everywhere keeps, by
// ascending id, with their weights. As in Hugging Face's generate: top-k keeps every token equal to
// the k-th; top-p, taken over what top-k keeps, keeps a token while those before it sum to less
// than p; min-p keeps what is at least min_p times as likely as the first.
void CollectSupport(const LogitRow& row, const SamplingFilter& filter, SamplingScratch& scratch);

}  // namespace quire::cpu
