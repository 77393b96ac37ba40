// One row of logits as a CTA sees it, and the passes over it that sampling is made of. Every warp
// owns one contiguous range of token ids, so that sums in id order need no sorting. All functions
// are called by all threads of the CTA. Device code only.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cub/block/block_scan.cuh>

#include "kernels/base/types.h"
#include "kernels/sampling.h"

namespace quire::cuda {

inline constexpr int kSampleThreads = 512;
inline constexpr int kSampleWarps = kSampleThreads / 32;

// Orders logits as unsigned integers do; both zeros are one.
__device__ inline uint32_t KeyOf(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// A NaN counts as -infinity and +infinity as the largest float.
__device__ inline float Clean(float logit) {
  return isnan(logit) ? -INFINITY : fminf(logit, FLT_MAX);
}

// The logits of a row, with the row's penalties and bias unless those are null.
struct LogitView {
  const float* logits;
  int32_t vocab_size;
  const SamplingRow* row;
  const int32_t* counts;       // of the row, for penalties
  const LogitBias* bias;       // the row's range is in `row`
  const uint32_t* biased_ids;  // a bit per token that the range names

  __device__ float operator[](int32_t id) const { return Edit(id, logits[id]); }

  // The logit of this id, given the raw one.
  __device__ float Edit(int32_t id, float raw) const {
    float logit = Clean(raw);
    if (counts == nullptr && bias == nullptr) return logit;
    if (counts != nullptr) logit = Penalised(logit, counts[id]);
    if (bias != nullptr && (biased_ids[id / 32] >> (id % 32) & 1) != 0) {
      for (int32_t i = row->bias_begin; i < row->bias_end; ++i) {
        if (bias[i].token == id) logit += bias[i].bias;
      }
    }
    return Clean(logit);
  }

 private:
  __device__ float Penalised(float logit, int32_t count) const {
    if (count == 0) return logit;
    logit = logit < 0 ? logit * row->repetition_penalty : logit / row->repetition_penalty;
    const int32_t num_generated = count & ~kPromptTokenBit;
    if (num_generated > 0) {
      logit -= row->frequency_penalty * static_cast<float>(num_generated) + row->presence_penalty;
    }
    return logit;
  }
};

// Calls visit(id, logit) for this thread's share of [begin, end), its warp's part being contiguous.
template <typename Visit>
__device__ void ForEachLogit(const LogitView& view, int32_t begin, int32_t end,
                             const Visit& visit) {
  constexpr int kInFlight = 8;  // loads under way before the first is used
  const int32_t per_warp = RoundUp(CeilDiv(end - begin, kSampleWarps), 32);
  const int32_t warp_begin = begin + static_cast<int32_t>(threadIdx.x) / 32 * per_warp;
  const int32_t warp_end = min(warp_begin + per_warp, end);
  for (int32_t first = warp_begin + threadIdx.x % 32; first < warp_end; first += 32 * kInFlight) {
    float raw[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int32_t id = first + 32 * i;
      raw[i] = id < warp_end ? view.logits[id] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int32_t id = first + 32 * i;
      if (id < warp_end) visit(id, view.Edit(id, raw[i]));
    }
  }
}

__device__ inline uint64_t WarpSum(uint64_t value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
  return value;
}

// Sums by warp, so that a position in id order can be found again.
struct OrderedSums {
  uint64_t warps[kSampleWarps];

  // Returns the total.
  __device__ uint64_t Set(uint64_t value) {
    value = WarpSum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    uint64_t total = 0;
    for (uint64_t sum : warps) total += sum;
    return total;
  }
};

// The first id at which the weights of the ids up to it sum to more than `target`, which is less
// than the sum of all; `sums` holds those weights and is written over.
template <typename WeightOf>
__device__ int32_t FindInOrder(const LogitView& view, OrderedSums& sums, uint64_t target,
                               const WeightOf& weight_of) {
  // Twice the range shrinks to what one warp has summed.
  int32_t begin = 0;
  int32_t end = view.vocab_size;
  for (int level = 0;; ++level) {
    const int32_t per_warp = RoundUp(CeilDiv(end - begin, kSampleWarps), 32);
    int warp = 0;
    while (warp < kSampleWarps - 1 && target >= sums.warps[warp]) target -= sums.warps[warp++];
    begin += warp * per_warp;
    end = min(begin + per_warp, end);
    if (level == 1) break;
    uint64_t sum = 0;
    ForEachLogit(view, begin, end, [&](int32_t id, float logit) { sum += weight_of(id, logit); });
    sums.Set(sum);
  }
  // The rest is done by every warp alike.
  for (int32_t first = begin; first < end; first += 32) {
    const auto lane = static_cast<int32_t>(threadIdx.x % 32);
    const int32_t id = first + lane;
    const uint64_t weight = id < end ? weight_of(id, view[id]) : 0;
    uint64_t up_to = weight;
    for (int step = 1; step < 32; step *= 2) {
      const uint64_t before = __shfl_up_sync(0xffffffff, up_to, step);
      if (lane >= step) up_to += before;
    }
    const uint32_t past = __ballot_sync(0xffffffff, up_to > target);
    if (past != 0) return first + __ffs(static_cast<int>(past)) - 1;
    target -= __shfl_sync(0xffffffff, up_to, 31);
  }
  return end - 1;
}

// A key of the ranking and what ranks above it.
struct SelectedKey {
  uint32_t key;
  uint64_t before;  // sum of weights of greater keys
  uint64_t equal;   // sum of weights of this key
};

// Shared memory of SelectKey.
struct KeyHistogram {
  static constexpr int kBins = 2048;
  using Scan = cub::BlockScan<uint64_t, kSampleThreads>;
  unsigned long long sums[kBins];
  typename Scan::TempStorage scan;
  int32_t bin;
  uint64_t before;
};

// The greatest key such that the weights of all keys from it upwards sum to at least `target`,
// which is positive and no more than the sum of all. for_each(add) calls add(key, weight).
template <typename ForEach>
__device__ SelectedKey SelectKey(KeyHistogram& histogram, uint64_t target,
                                 const ForEach& for_each) {
  constexpr int kDigitBits[] = {11, 11, 10};
  SelectedKey selected = {};
  int shift = 32;
  for (int bits : kDigitBits) {
    const int above = shift;
    shift -= bits;
    for (int i = threadIdx.x; i < KeyHistogram::kBins; i += kSampleThreads) histogram.sums[i] = 0;
    __syncthreads();
    for_each([&](uint32_t key, uint64_t weight) {
      if (above < 32 && key >> above != selected.key >> above) return;
      atomicAdd(&histogram.sums[key >> shift & ((1u << bits) - 1)], weight);
    });
    __syncthreads();
    // Each thread has some bins, the greatest keys first.
    constexpr int kBinsPerThread = KeyHistogram::kBins / kSampleThreads;
    const int first_bin = KeyHistogram::kBins - 1 - kBinsPerThread * static_cast<int>(threadIdx.x);
    uint64_t sum = 0;
    for (int i = 0; i < kBinsPerThread; ++i) sum += histogram.sums[first_bin - i];
    uint64_t before;
    KeyHistogram::Scan(histogram.scan).ExclusiveSum(sum, before);
    before += selected.before;
    if (before < target && before + sum >= target) {
      int bin = first_bin;
      while (before + histogram.sums[bin] < target) before += histogram.sums[bin--];
      histogram.bin = bin;
      histogram.before = before;
    }
    __syncthreads();
    selected.key |= static_cast<uint32_t>(histogram.bin) << shift;
    selected.before = histogram.before;
    selected.equal = histogram.sums[histogram.bin];
    __syncthreads();
  }
  return selected;
}

}  // namespace quire::cuda
