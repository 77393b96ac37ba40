// One row of logits as the sampling kernels see it: its values after penalties, bias and mask, the
// weight of a logit, and its place in the row's ranking as one integer. Device code only.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "kernels/base/types.h"
#include "kernels/cuda/sampling/sampling_slices.h"

namespace quire::cuda {

inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr float kLog2E = 1.44269504088896340736f;
// A weight of one, in the fixed point of sums: 2^23 tokens of it still fit 64 bits.
inline constexpr int kWeightBits = 40;
inline constexpr float kWeightOne = static_cast<float>(1ull << kWeightBits);

// Orders logits as unsigned integers do; both zeros are one.
__device__ inline uint32_t KeyOf(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ inline float LogitOf(uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// The place of a token in the ranking as an integer: by logit, then the lowest id. No two tokens of
// a row share one.
inline constexpr int kRankIdBits = 24;
inline constexpr int32_t kMaxSampledId = (1 << kRankIdBits) - 1;
inline constexpr uint64_t kMaxRank = (uint64_t{1} << (32 + kRankIdBits)) - 1;

__device__ inline uint64_t RankOf(uint32_t key, int32_t id) {
  return uint64_t{key} << kRankIdBits | static_cast<uint32_t>(kMaxSampledId - id);
}
__device__ inline uint32_t KeyOfRank(uint64_t rank) {
  return static_cast<uint32_t>(rank >> kRankIdBits);
}
__device__ inline int32_t IdOfRank(uint64_t rank) {
  return kMaxSampledId - static_cast<int32_t>(rank & kMaxSampledId);
}
// The least rank that a token of this key can have.
__device__ inline uint64_t LeastRankOf(uint32_t key) { return RankOf(key, kMaxSampledId); }

// The tokens from the first of the ranking down to some rank, as comparisons of their logits.
struct RankFloor {
  float logit = -INFINITY;
  int32_t last_id = INT32_MAX;  // of the tokens of that very logit, only those up to this id

  __device__ explicit RankFloor(uint64_t rank) {
    if (rank < LeastRankOf(KeyOf(-INFINITY))) return;  // below all logits keys are no numbers
    logit = LogitOf(KeyOfRank(rank));
    last_id = IdOfRank(rank);
  }

  __device__ float Floor() const { return logit; }
  __device__ bool operator()(int32_t id, float other) const {
    return other > logit || (other == logit && id <= last_id);
  }
};

// +infinity counts as the largest float. A NaN stays one, the positive one, whose key is greater
// than all others', so that the greatest of a row tells whether it has one.
__device__ inline float Clean(float logit) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(logit), "f"(FLT_MAX));
  return result;
}

// The greater one; a NaN if one of them is.
__device__ inline float GreaterOrNan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// log2(e) / temperature: exp2 of it times a difference of logits is a ratio of weights. Below the
// bound's temperature the distribution is a point; it keeps 0 * infinity out.
__device__ inline float WeightScale(float temperature) {
  constexpr float kMaxInverseTemperature = 1e30f;
  return fminf(1.0f / temperature, kMaxInverseTemperature) * kLog2E;
}

// 2^x within 2 units in the last place, and 0 where that is no normal number.
__device__ inline float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// exp((logit - max) / temperature), and in units of the fixed point.
struct LogitWeight {
  float max;
  float scale;  // of WeightScale

  __device__ float Ratio(float logit) const { return Exp2((logit - max) * scale); }
  __device__ float operator()(float logit) const { return Ratio(logit) * kWeightOne; }
  __device__ uint64_t OfRank(uint64_t rank) const {  // in whole units
    return __float2ull_rn((*this)(LogitOf(KeyOfRank(rank))));
  }
};

// The amount that each token of a row adds to a sum: its weight, or one; nothing below a rank.
class TokenWeight {
 public:
  __device__ static TokenWeight Weight(const LogitWeight& weight, uint64_t least_rank) {
    return TokenWeight(weight, least_rank, false);
  }
  __device__ static TokenWeight One(uint64_t least_rank) {
    return TokenWeight({}, least_rank, true);
  }

  __device__ float Floor() const { return floor_.Floor(); }
  __device__ float operator()(int32_t id, float logit) const {
    return floor_(id, logit) ? OfKept(logit) : 0;
  }
  // The amount of a token that is known to count.
  __device__ float OfKept(float logit) const { return is_one_ ? 1 : weight_(logit); }

 private:
  __device__ TokenWeight(const LogitWeight& weight, uint64_t least_rank, bool is_one)
      : weight_(weight), is_one_(is_one), floor_(least_rank) {}

  LogitWeight weight_;
  bool is_one_;
  RankFloor floor_;
};

__device__ inline bool UsesTopK(const SamplingRow& row, int32_t vocab_size) {
  return row.top_k > 0 && row.top_k < vocab_size;
}

template <typename T>
struct Four {
  T v[4];
};

template <typename T>
__noinline__ __device__ Four<T> LoadFourOneByOne(const T* p, int32_t count, T fill) {
  Four<T> four;
  for (int j = 0; j < 4; ++j) four.v[j] = j < count ? p[j] : fill;
  return four;
}

// v[j] = p[j] for j < count, else `fill`; in one access where four of them lie on 16 bytes.
template <typename Vector, typename T>
__device__ Four<T> LoadFour(const T* p, int32_t count, T fill) {
  if (count < 4 || reinterpret_cast<uintptr_t>(p) % 16 != 0) {
    return LoadFourOneByOne(p, count, fill);
  }
  const Vector four = *reinterpret_cast<const Vector*>(p);
  return {four.x, four.y, four.z, four.w};
}

// The logits of a row, with the row's penalties, bias and mask unless those are null.
struct LogitView {
  const float* logits;
  int32_t vocab_size;
  const SamplingRow* row;
  const int32_t* counts;       // of the row, for penalties
  const LogitBias* bias;       // the row's range is in `row`
  const uint32_t* biased_ids;  // a bit per token from first_biased_id on that the range names
  int32_t first_biased_id;
  const uint32_t* mask;  // of the row, [MaskWords(vocab_size)]

  // Load the untouched logits of ids [id, id + 4), -infinity beyond the vocabulary, and their
  // counts.
  __device__ Four<float> Load(int32_t id) const {
    return LoadFour<float4>(logits + id, vocab_size - id, -INFINITY);
  }
  __device__ Four<int32_t> LoadCounts(int32_t id) const {
    if (counts == nullptr) return {};
    return LoadFour<int4>(counts + id, vocab_size - id, 0);
  }

  __device__ bool IsEdited() const {
    return counts != nullptr || bias != nullptr || mask != nullptr;
  }

  // The logits of ids [id, id + 4), from what the two above gave.
  __device__ Four<float> Edit(int32_t id, Four<float> raw, const Four<int32_t>& count) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float& logit = raw.v[j];
      const float unedited = logit = Clean(logit);
      if (count.v[j] != 0) logit = Penalised(logit, count.v[j]);
      if (bias != nullptr && IsBiased(id + j)) logit += BiasOf(id + j);
      logit = Clean(logit);
      if (isnan(logit) && !isnan(unedited)) logit = -INFINITY;  // -infinity with a bias of infinity
    }
    return raw;
  }

  // The bits of ids [id, id + 4) in the mask; id is a multiple of 4.
  __device__ uint32_t LoadMask(int32_t id) const {
    if (mask == nullptr || id >= vocab_size) return 0xf;
    return mask[id / 32] >> (id % 32) & 0xf;
  }

 private:
  __device__ float BiasOf(int32_t id) const {
    float sum = 0;
#pragma unroll 1
    for (int32_t i = row->bias_begin; i < BiasEnd(*row); ++i) {
      if (bias[i].token == id) sum += bias[i].bias;
    }
    return sum;
  }

  __device__ bool IsBiased(int32_t id) const {
    const int32_t bit = id - first_biased_id;
    return id < vocab_size && (biased_ids[bit / 32] >> (bit % 32) & 1) != 0;
  }

  __device__ float Penalised(float logit, int32_t count) const {
    logit = logit < 0 ? logit * row->repetition_penalty : logit / row->repetition_penalty;
    const int32_t num_generated = count & ~kPromptTokenBit;
    if (num_generated > 0) {
      logit -= row->frequency_penalty * static_cast<float>(num_generated) + row->presence_penalty;
    }
    return logit;
  }
};

inline __device__ Four<float> Cleaned(const Four<float>& raw) {
  return {Clean(raw.v[0]), Clean(raw.v[1]), Clean(raw.v[2]), Clean(raw.v[3])};
}

// The logits that Edit gave, with -infinity for tokens without their bit. A NaN stays, because its
// row is broken.
inline __device__ Four<float> Masked(Four<float> logits, uint32_t bits) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if ((bits >> j & 1) == 0 && !isnan(logits.v[j])) logits.v[j] = -INFINITY;
  }
  return logits;
}

inline __device__ const uint32_t* MaskOf(const SamplingRow& row, const SampleArgs& args,
                                         int32_t vocab_size) {
  return row.mask < 0 ? nullptr : args.token_masks + row.mask * MaskWords(vocab_size);
}

// The row's logits in [begin, end) as they are to be sampled from. Marks the ids that its bias
// names in biased_ids [(end - begin) / 32], which is shared memory; called by all threads of the
// CTA.
__device__ inline LogitView EditedView(const LogitView& raw, const SampleArgs& args, int32_t begin,
                                       int32_t end, uint32_t* biased_ids) {
  const SamplingRow& row = *raw.row;
  LogitView view = raw;
  if (UsesPenalties(row)) {
    view.counts = args.token_counts + static_cast<int64_t>(row.row) * raw.vocab_size;
  }
  view.mask = MaskOf(row, args, raw.vocab_size);
  if (row.num_bias == 0) return view;
  view.bias = args.bias;
  view.biased_ids = biased_ids;
  view.first_biased_id = begin;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const auto num_threads = static_cast<int32_t>(blockDim.x);
  for (int32_t i = thread; i < CeilDiv(end - begin, 32); i += num_threads) biased_ids[i] = 0;
  __syncthreads();
  for (int32_t i = row.bias_begin + thread; i < BiasEnd(row); i += num_threads) {
    const int32_t bit = args.bias[i].token - begin;
    if (bit >= 0 && bit < end - begin) atomicOr(&biased_ids[bit / 32], 1u << bit % 32);
  }
  __syncthreads();
  return view;
}

}  // namespace quire::cuda
