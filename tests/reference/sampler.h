// The specification of sampling one row: penalties, bias, mask, and the distribution that
// temperature, top-k, top-p and min-p leave, in double and with a full sort.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/sampling.h"

namespace quire::reference {

// Hugging Face's repetition penalty, then frequency and presence penalties, then bias.
inline std::vector<double> EditLogits(const std::vector<float>& logits, const SamplingRow& row,
                                      const std::vector<int32_t>& counts,
                                      const std::vector<LogitBias>& bias) {
  std::vector<double> edited(logits.begin(), logits.end());
  for (size_t id = 0; id < edited.size(); ++id) {
    if (counts[id] == 0) continue;
    edited[id] =
        edited[id] < 0 ? edited[id] * row.repetition_penalty : edited[id] / row.repetition_penalty;
    const int32_t num_generated = counts[id] & ~kPromptTokenBit;
    if (num_generated == 0) continue;
    edited[id] -= static_cast<double>(row.frequency_penalty) * num_generated;
    edited[id] -= row.presence_penalty;
  }
  for (int32_t i = row.bias_begin; i < BiasEnd(row); ++i) edited[bias[i].token] += bias[i].bias;
  return edited;
}

inline bool Allows(const std::vector<uint32_t>& mask, size_t token) {
  return (mask[token / 32] >> (token % 32) & 1) != 0;
}

// The edited logits of the mask's tokens; -infinity for all others. If that leaves nothing, the
// mask's token with the greatest untouched logit has 0. mask: [MaskWords(vocab_size)].
inline std::vector<double> MaskLogits(const std::vector<float>& untouched,
                                      std::vector<double> edited,
                                      const std::vector<uint32_t>& mask) {
  constexpr double kRemoved = -std::numeric_limits<double>::infinity();
  size_t likeliest = edited.size();
  for (size_t id = 0; id < edited.size(); ++id) {
    if (!Allows(mask, id)) {
      edited[id] = kRemoved;
    } else if (likeliest == edited.size() || untouched[id] > untouched[likeliest]) {
      likeliest = id;
    }
  }
  if (*std::max_element(edited.begin(), edited.end()) == kRemoved) edited[likeliest] = 0;
  return edited;
}

// Ids by logit, greatest first, equal ones by id.
inline std::vector<int32_t> Ranking(const std::vector<double>& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return ids;
}

inline std::vector<double> Softmax(const std::vector<double>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> out;
  for (double logit : logits) out.push_back(std::exp(logit - max));
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& p : out) p /= sum;
  return out;
}

// The probability of every token after all filters, in Hugging Face's order.
inline std::vector<double> Distribution(std::vector<double> logits, const SamplingRow& row) {
  constexpr double kRemoved = -std::numeric_limits<double>::infinity();
  const std::vector<int32_t> ranking = Ranking(logits);
  for (double& logit : logits) logit /= row.temperature;
  if (row.top_k > 0 && row.top_k < static_cast<int32_t>(logits.size())) {
    const double least = logits[ranking[row.top_k - 1]];
    for (double& logit : logits) {
      if (logit < least) logit = kRemoved;
    }
  }
  if (row.top_p < 1.0f) {
    const std::vector<double> probs = Softmax(logits);
    double before = 0;
    for (size_t i = 0; i < ranking.size(); ++i) {
      if (i > 0 && before >= row.top_p) logits[ranking[i]] = kRemoved;
      before += probs[ranking[i]];
    }
  }
  if (row.min_p > 0.0f) {
    const std::vector<double> probs = Softmax(logits);
    for (size_t id = 0; id < logits.size(); ++id) {
      if (probs[id] < row.min_p * probs[ranking[0]]) logits[id] = kRemoved;
    }
  }
  return Softmax(logits);
}

inline std::vector<double> LogSoftmax(const std::vector<float>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - max);
  std::vector<double> out;
  for (double logit : logits) out.push_back(logit - max - std::log(sum));
  return out;
}

}  // namespace quire::reference
