#include "kernels/base/philox.h"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/sampling_row.cuh"

namespace quire::cuda {

namespace {

constexpr float kLog2E = 1.44269504088896340736f;
// A weight of one, in the fixed point of sums: 2^18 tokens of it still fit 64 bits.
constexpr int kWeightBits = 40;

struct SampleShared {
  OrderedSums sums;
  KeyHistogram histogram;
  int32_t num_top;
  int32_t top_ids[kMaxLogprobs];
  uint32_t top_keys[kMaxLogprobs];
};

// The greatest logit of a row, and its lowest id.
struct RowMaximum {
  float logit;
  int32_t id;
  uint32_t thread_key;  // the greatest key that this thread has seen
};

// exp((logit - max) / temperature) in fixed point.
struct LogitWeight {
  float max;
  float scale;  // log2(e) / temperature

  __device__ uint64_t operator()(float logit) const {
    return __float2ull_rn(exp2f((logit - max) * scale) * static_cast<float>(1ull << kWeightBits));
  }
};

// What the filters keep: keys of at least `floor`; of `tie_key` only ids up to `last_tie`.
struct KeptTokens {
  uint32_t floor = 0;
  uint32_t tie_key = 0;
  int32_t last_tie = INT32_MAX;

  __device__ bool Has(float logit, int32_t id) const {
    const uint32_t key = KeyOf(logit);
    return key >= floor && (key != tie_key || id <= last_tie);
  }
};

__device__ RowMaximum FindMaximum(const LogitView& view, SampleShared& shared) {
  float logit_seen = -INFINITY;
  int32_t id_seen = 0;  // where every logit is -infinity the choice is id 0
  ForEachLogit(view, 0, view.vocab_size, [&](int32_t id, float logit) {
    if (logit > logit_seen) {
      logit_seen = logit;
      id_seen = id;
    }
  });
  // The greatest key, then the lowest id.
  uint64_t best = uint64_t{KeyOf(logit_seen)} << 32 | ~static_cast<uint32_t>(id_seen);
  for (int step = 16; step > 0; step /= 2) {
    best = max(best, __shfl_xor_sync(0xffffffff, best, step));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared.sums.warps[threadIdx.x / 32] = best;
  __syncthreads();
  for (uint64_t other : shared.sums.warps) best = max(best, other);
  const auto id = static_cast<int32_t>(~static_cast<uint32_t>(best));
  return {view[id], id, KeyOf(logit_seen)};
}

// The key of the k-th greatest logit, 1 <= k <= vocab_size.
__device__ uint32_t KthKey(const LogitView& view, const RowMaximum& maximum, int32_t k,
                           SampleShared& shared) {
  // k threads have seen a logit of at least the k-th greatest of their maxima, so k logits are.
  uint32_t floor = 0;
  if (k <= kSampleThreads) {
    const auto for_each = [&](const auto& add) { add(maximum.thread_key, 1); };
    floor = SelectKey(shared.histogram, k, for_each).key;
  }
  const auto for_each = [&](const auto& add) {
    ForEachLogit(view, 0, view.vocab_size, [&](int32_t, float logit) {
      const uint32_t key = KeyOf(logit);
      if (key >= floor) add(key, 1);
    });
  };
  return SelectKey(shared.histogram, k, for_each).key;
}

template <typename WeightOf>
__device__ uint64_t SumInOrder(const LogitView& view, OrderedSums& sums,
                               const WeightOf& weight_of) {
  uint64_t sum = 0;
  ForEachLogit(view, 0, view.vocab_size,
               [&](int32_t id, float logit) { sum += weight_of(id, logit); });
  return sums.Set(sum);
}

// Top-p over what has been kept so far: a token stays while those before it sum to less than p.
__device__ void KeepMass(const LogitView& view, const LogitWeight& weight, float top_p,
                         KeptTokens& kept, SampleShared& shared) {
  const uint32_t floor = kept.floor;
  const auto weight_of = [&](int32_t, float logit) -> uint64_t {
    return KeyOf(logit) >= floor ? weight(logit) : 0;
  };
  const uint64_t total = SumInOrder(view, shared.sums, weight_of);
  const double mass = ceil(static_cast<double>(fmaxf(top_p, 0.0f)) * static_cast<double>(total));
  const uint64_t target = max(uint64_t{1}, min(total, static_cast<uint64_t>(mass)));
  const auto for_each = [&](const auto& add) {
    ForEachLogit(view, 0, view.vocab_size, [&](int32_t id, float logit) {
      const uint64_t token_weight = weight_of(id, logit);
      if (token_weight > 0) add(KeyOf(logit), token_weight);
    });
  };
  const SelectedKey last = SelectKey(shared.histogram, target, for_each);
  kept.floor = last.key;

  // Equal logits rank by id; all weigh the same.
  const auto is_tie = [&](int32_t, float logit) -> uint64_t {
    return KeyOf(logit) == last.key ? 1 : 0;
  };
  const uint64_t num_ties = SumInOrder(view, shared.sums, is_tie);
  const uint64_t tie_weight = last.equal / num_ties;
  const uint64_t num_kept = CeilDiv(target - last.before, tie_weight);
  if (num_kept >= num_ties) return;
  kept.tie_key = last.key;
  kept.last_tie = FindInOrder(view, shared.sums, num_kept - 1, is_tie);
}

__device__ int32_t Draw(const LogitView& view, const SamplingRow& row, const RowMaximum& maximum,
                        SampleShared& shared) {
  if (maximum.logit == -INFINITY) return 0;
  // Below this temperature the distribution is a point; the bound keeps 0 * infinity out.
  constexpr float kMaxInverseTemperature = 1e30f;
  const float inverse_temperature = fminf(1.0f / row.temperature, kMaxInverseTemperature);
  const LogitWeight weight = {maximum.logit, inverse_temperature * kLog2E};
  KeptTokens kept;
  if (row.top_k > 0 && row.top_k < view.vocab_size) {
    kept.floor = KthKey(view, maximum, row.top_k, shared);
  }
  if (row.top_p < 1) KeepMass(view, weight, row.top_p, kept, shared);
  if (row.min_p > 0) {
    // The first token stays, whatever min_p.
    const float floor = maximum.logit + logf(row.min_p) / inverse_temperature;
    kept.floor = max(kept.floor, KeyOf(fminf(maximum.logit, floor)));
  }
  const auto weight_of = [&](int32_t id, float logit) -> uint64_t {
    return kept.Has(logit, id) ? weight(logit) : 0;
  };
  const uint64_t total = SumInOrder(view, shared.sums, weight_of);
  const double uniform = UniformAt(row.seed, row.position);
  const auto target = static_cast<uint64_t>(uniform * static_cast<double>(total));
  return FindInOrder(view, shared.sums, min(target, total - 1), weight_of);
}

// Log-softmax of the unmodified logits of one row.
struct LogProbs {
  float max;
  double log_sum;

  // -infinity for a logit of -infinity, even where all are.
  __device__ float Of(float logit) const {
    if (logit == -INFINITY) return -INFINITY;
    return static_cast<float>(static_cast<double>(logit) - max - log_sum);
  }
};

// The `num` most likely tokens, in any order, into shared.top_ids.
__device__ void CollectTop(const LogitView& raw, const RowMaximum& maximum, int32_t num,
                           SampleShared& shared) {
  const uint32_t last = KthKey(raw, maximum, num, shared);
  if (threadIdx.x == 0) shared.num_top = 0;
  __syncthreads();
  ForEachLogit(raw, 0, raw.vocab_size, [&](int32_t id, float logit) {
    const uint32_t key = KeyOf(logit);
    if (key <= last) return;
    const int32_t at = atomicAdd(&shared.num_top, 1);
    shared.top_ids[at] = id;
    shared.top_keys[at] = key;
  });
  __syncthreads();
  const int32_t num_greater = shared.num_top;
  const auto is_last = [&](int32_t, float logit) -> uint64_t {
    return KeyOf(logit) == last ? 1 : 0;
  };
  for (int32_t at = num_greater; at < num; ++at) {
    SumInOrder(raw, shared.sums, is_last);
    const int32_t id = FindInOrder(raw, shared.sums, at - num_greater, is_last);
    if (threadIdx.x == 0) {
      shared.top_ids[at] = id;
      shared.top_keys[at] = last;
    }
  }
  __syncthreads();
}

__device__ void ReportLogprobs(const LogitView& raw, const SampleArgs& args, int64_t index,
                               int32_t id, int32_t num_logprobs, SampleShared& shared) {
  const RowMaximum maximum = FindMaximum(raw, shared);
  const LogitWeight weight = {maximum.logit, kLog2E};
  const uint64_t total =
      SumInOrder(raw, shared.sums, [&](int32_t, float logit) { return weight(logit); });
  const LogProbs logprobs = {
      maximum.logit, log(static_cast<double>(total) / static_cast<double>(1ull << kWeightBits))};
  const uint32_t key = KeyOf(raw[id]);
  const uint64_t rank =
      1 + SumInOrder(raw, shared.sums, [&](int32_t other, float logit) -> uint64_t {
        const uint32_t other_key = KeyOf(logit);
        return other_key > key || (other_key == key && other < id) ? 1 : 0;
      });
  if (threadIdx.x == 0) {
    args.sampled_logprobs[index] = logprobs.Of(raw[id]);
    args.sampled_ranks[index] = static_cast<int32_t>(rank);
  }
  const int32_t num_top = min(min(num_logprobs, kMaxLogprobs), raw.vocab_size);
  if (num_top <= 0) return;
  CollectTop(raw, maximum, num_top, shared);
  if (static_cast<int32_t>(threadIdx.x) >= num_top) return;
  const uint32_t my_key = shared.top_keys[threadIdx.x];
  const int32_t my_id = shared.top_ids[threadIdx.x];
  int32_t place = 0;
  for (int32_t i = 0; i < num_top; ++i) {
    const uint32_t other = shared.top_keys[i];
    if (other > my_key || (other == my_key && shared.top_ids[i] < my_id)) ++place;
  }
  args.top_ids[index * kMaxLogprobs + place] = my_id;
  args.top_logprobs[index * kMaxLogprobs + place] = logprobs.Of(raw[my_id]);
}

// The row's logits as they are to be sampled from; marks the ids that its bias names.
__device__ LogitView EditedView(const LogitView& raw, const SampleArgs& args,
                                const SamplingRow& row, uint32_t* biased_ids) {
  LogitView view = raw;
  if (UsesPenalties(row)) {
    view.counts = args.token_counts + static_cast<int64_t>(row.row) * raw.vocab_size;
  }
  if (row.bias_begin == row.bias_end) return view;
  view.bias = args.bias;
  view.biased_ids = biased_ids;
  for (int32_t i = threadIdx.x; i < CeilDiv(raw.vocab_size, 32); i += kSampleThreads) {
    biased_ids[i] = 0;
  }
  __syncthreads();
  for (int32_t i = row.bias_begin + threadIdx.x; i < row.bias_end; i += kSampleThreads) {
    const int32_t token = args.bias[i].token;
    if (token >= 0 && token < raw.vocab_size) atomicOr(&biased_ids[token / 32], 1u << token % 32);
  }
  __syncthreads();
  return view;
}

__global__ void __launch_bounds__(kSampleThreads, 2)
    Sample(const __grid_constant__ SampleArgs args, const float* logits, int64_t row_stride,
           int32_t vocab_size) {
  extern __shared__ uint32_t biased_ids[];
  __shared__ SampleShared shared;
  __shared__ SamplingRow row;
  const int64_t index = blockIdx.x;
  if (threadIdx.x == 0) row = args.rows[index];
  __syncthreads();
  const bool is_scored = row.target >= 0;
  if (!is_scored && row.row < 0) {
    if (threadIdx.x == 0) args.sampled_ids[index] = -1;
    return;
  }
  const LogitView raw = {.logits = logits + index * row_stride,
                         .vocab_size = vocab_size,
                         .row = &row,
                         .counts = nullptr,
                         .bias = nullptr,
                         .biased_ids = nullptr};
  int32_t id = row.target;
  if (!is_scored) {
    const LogitView view = EditedView(raw, args, row, biased_ids);
    const RowMaximum maximum = FindMaximum(view, shared);
    id = row.temperature > 0 ? Draw(view, row, maximum, shared) : maximum.id;
  }
  if (row.num_logprobs >= 0) ReportLogprobs(raw, args, index, id, row.num_logprobs, shared);
  __syncthreads();
  if (threadIdx.x != 0) return;
  args.sampled_ids[index] = id;
  if (is_scored) return;
  args.row_last_token[row.row] = id;
  if (UsesPenalties(row)) ++args.token_counts[static_cast<int64_t>(row.row) * vocab_size + id];
}

__global__ void CountTokens(const __grid_constant__ ResetTokenCountsArgs args) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.num_tokens) return;
  int32_t* count = args.token_counts + args.row * args.vocab_size + args.tokens[i];
  if (i < args.num_prompt_tokens) {
    atomicOr(count, kPromptTokenBit);
  } else {
    atomicAdd(count, 1);
  }
}

}  // namespace

void LaunchSample(const SampleArgs& args, cudaStream_t stream) {
  const auto num_rows = static_cast<unsigned>(args.logits.dim(0));
  if (num_rows == 0) return;
  const auto vocab_size = static_cast<int32_t>(args.logits.dim(1));
  const int shared_bytes = CeilDiv(vocab_size, 32) * 4;
  // Above the default limit a kernel must be allowed its shared memory; a refusal shows at launch.
  (void)cudaFuncSetAttribute(Sample, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  Sample<<<num_rows, kSampleThreads, shared_bytes, stream>>>(args, args.logits.as<float>(),
                                                             args.logits.row_stride(), vocab_size);
}

void LaunchResetTokenCounts(const ResetTokenCountsArgs& args, cudaStream_t stream) {
  (void)cudaMemsetAsync(args.token_counts + args.row * args.vocab_size, 0, args.vocab_size * 4,
                        stream);
  if (args.num_tokens == 0) return;
  constexpr int kThreads = 256;
  CountTokens<<<static_cast<unsigned>(CeilDiv<int64_t>(args.num_tokens, kThreads)), kThreads, 0,
                stream>>>(args);
}

}  // namespace quire::cuda
