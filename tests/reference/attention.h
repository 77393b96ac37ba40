// The specification of paged attention: plain loops in double over host copies of the operands.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention.h"

namespace quire::reference {

struct AttentionResult {
  std::vector<double> out;  // [num_tokens, num_q_heads, v_head_dim]
  std::vector<double> lse;  // [num_tokens, num_q_heads], base 2
};

// What a query head asks, and what its KV head's elements are multiplied by.
struct HeadQuery {
  const float* q;
  double k_scale = 1, v_scale = 1;
  double sink = -std::numeric_limits<double>::infinity();
};

// One query head against `keys` (offsets of the visible keys' rows in k and v).
inline void AttendOne(const AttentionGeometry& geometry, const HeadQuery& query, const float* k,
                      const float* v, const std::vector<int64_t>& keys, double* out, double* lse) {
  std::vector<double> logits;
  double max = query.sink;
  for (int64_t key : keys) {
    double logit = 0;
    for (int32_t i = 0; i < geometry.k_head_dim; ++i) {
      logit += static_cast<double>(query.q[i]) * k[key + i];
    }
    logit *= geometry.scale * query.k_scale;
    if (geometry.soft_cap > 0) logit = geometry.soft_cap * std::tanh(logit / geometry.soft_cap);
    logits.push_back(logit);
    max = std::max(max, logit);
  }
  double sum = std::isinf(query.sink) ? 0 : std::exp(query.sink - max);
  std::fill_n(out, geometry.v_head_dim, 0.0);
  for (size_t j = 0; j < keys.size(); ++j) {
    const double weight = std::exp(logits[j] - max);
    sum += weight;
    for (int32_t i = 0; i < geometry.v_head_dim; ++i) out[i] += weight * v[keys[j] + i];
  }
  *lse = max;
  if (sum == 0) return;
  for (int32_t i = 0; i < geometry.v_head_dim; ++i) out[i] *= query.v_scale / sum;
  *lse = (max + std::log(sum)) / std::log(2.0);
}

// `batch` points to host memory; k and v are the whole cache, laid out alike as `view` says, whose
// scales and `sinks` are host memory, too.
inline AttentionResult Attention(const AttentionGeometry& geometry, const AttentionBatch& batch,
                                 const std::vector<float>& q, const std::vector<float>& k,
                                 const std::vector<float>& v, const KvCacheView& view,
                                 const std::vector<float>& sinks = {}) {
  const int64_t num_heads = geometry.num_q_heads;
  AttentionResult result;
  result.out.resize(batch.num_tokens * num_heads * geometry.v_head_dim);
  result.lse.resize(batch.num_tokens * num_heads);
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) {
    const BlockId* blocks = batch.block_tables + batch.seq_rows[seq] * batch.block_table_stride;
    if (batch.first_blocks != nullptr) blocks += batch.first_blocks[seq];
    const int32_t first = batch.cu_seqlens_q[seq];
    const int32_t query_len = batch.cu_seqlens_q[seq + 1] - first;
    for (int64_t token = first; token < first + query_len; ++token) {
      const int64_t num_later = batch.causal ? query_len - 1 - (token - first) : 0;
      const int64_t end = batch.seq_lens[seq] - num_later;
      const int64_t begin =
          geometry.sliding_window > 0 ? std::max<int64_t>(0, end - geometry.sliding_window) : 0;
      for (int64_t head = 0; head < num_heads; ++head) {
        const int64_t kv_head = head / (num_heads / geometry.num_kv_heads);
        std::vector<int64_t> keys;
        for (int64_t pos = begin; pos < end; ++pos) {
          keys.push_back(blocks[pos / view.block_size] * view.k.block_stride +
                         pos % view.block_size * view.k.token_stride +
                         kv_head * view.k.head_stride);
        }
        const int64_t row = token * num_heads + head;
        HeadQuery query = {.q = q.data() + row * geometry.k_head_dim};
        if (view.k.scales != nullptr) query.k_scale = view.k.scales[kv_head];
        if (view.v.scales != nullptr) query.v_scale = view.v.scales[kv_head];
        if (!sinks.empty()) query.sink = sinks[head];
        AttendOne(geometry, query, k.data(), v.data(), keys,
                  result.out.data() + row * geometry.v_head_dim, &result.lse[row]);
      }
    }
  }
  return result;
}

}  // namespace quire::reference
