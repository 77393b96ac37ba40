// Route: a warp chooses the experts of a token; then the pairs are sorted by expert, in one order
// whatever the timing. For one token that warp does both, for a few tokens one CTA does, and for
// more tokens two kernels do.
#include <algorithm>

#include "kernels/base/types.h"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/prefix_sums.cuh"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda {

namespace {

constexpr int kWarp = 32;
static_assert(RouterRule::kMaxGroups <= kWarp);  // a lane has a group's score
constexpr int kSmallThreads = 512;               // of the CTA that does both
constexpr int kMaxSmallTokens = kSmallThreads / kWarp;
constexpr int kChooseThreads = 128, kSortThreads = 1024;

struct RouteParams {
  const float* logits;  // [num_tokens, num_experts]
  int64_t logits_stride;
  const float* correction;     // [num_experts] or null
  const float* expert_scales;  // [num_experts] or null
  int32_t* experts;            // [num_tokens, top_k]
  float* weights;              // [num_tokens, top_k]
  int32_t* pairs;              // [num_tokens * top_k]
  int32_t* offsets;            // [num_experts + 1]
  int num_tokens;
  RouterRule rule;
};

constexpr int kNone = 0x7fffffff;  // no expert, and beyond all

// Orders numbers as floats do, with NaN below all of them and 0 below NaN.
__device__ uint32_t KeyOf(float value) {
  if (isnan(value)) return 1;
  const uint32_t bits = __float_as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The number that has this key.
__device__ float ValueOf(uint32_t key) {
  if (key <= 1) return NAN;
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ float WarpMax(float value) {
#pragma unroll
  for (int i = kWarp / 2; i > 0; i /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, i));
  return value;
}
// A token's experts in the registers of a warp: lane l has those numbered i * 32 + l.
template <int kPerLane>
class TokenRouter {
 public:
  __device__ TokenRouter(const RouteParams& p, int token)
      : p_(p), token_(token), lane_(threadIdx.x % kWarp) {}

  // All lanes; lane l gets the l-th choice of those that there are.
  __device__ int Run() {
    Score();
    if (p_.rule.top_groups < p_.rule.num_groups) KeepBestGroups();
    return Choose();
  }

 private:
  __device__ int Expert(int i) const { return i * kWarp + lane_; }
  __device__ bool Exists(int i) const { return Expert(i) < p_.rule.num_experts; }

  // scores_, and what is chosen by, as keys; 0: there is none. Logits that are NaN are left out.
  __device__ void Score() {
    const float* const logits = p_.logits + token_ * p_.logits_stride;
    float most = -INFINITY;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      scores_[i] = Exists(i) ? logits[Expert(i)] : -INFINITY;
      most = fmaxf(most, scores_[i]);
    }
    if (p_.rule.score == RouterScore::kSoftmax) {
      most = WarpMax(most);
      float sum = 0;
#pragma unroll
      for (float& score : scores_) {
        score = expf(score - most);
        if (!isnan(score)) sum += score;
      }
      sum = WarpSum(sum);
#pragma unroll
      for (float& score : scores_) score /= sum;
    } else {
#pragma unroll
      for (float& score : scores_) score = 1 / (1 + expf(-score));
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const float correction = p_.correction != nullptr && Exists(i) ? p_.correction[Expert(i)] : 0;
      keys_[i] = Exists(i) ? KeyOf(scores_[i] + correction) : 0;
    }
  }
  // Some logit of the token is NaN.
  __device__ bool IsBroken() const {
    bool is_broken = false;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) is_broken |= Exists(i) && isnan(scores_[i]);
    return __any_sync(~0u, is_broken);
  }

  // The greatest key of those with an index in [begin, end) but `except`, and its lowest index.
  struct Best {
    uint32_t key;
    int index;
  };
  __device__ Best FindBest(int begin, int end, int except) const {
    uint32_t key = 0, index = kNone;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const bool counts = Expert(i) >= begin && Expert(i) < end && Expert(i) != except;
      if (counts && keys_[i] > key) key = keys_[i], index = Expert(i);
    }
    return BestOfLanes(key, index);
  }
  // Two lanes' keys are alike so rarely that the lowest index is looked for only then.
  static __device__ Best BestOfLanes(uint32_t key, uint32_t index) {
    const uint32_t most = __reduce_max_sync(~0u, key);
    const bool is_best = key == most;
    const unsigned int best = __ballot_sync(~0u, is_best);
    const uint32_t first = (best & (best - 1)) == 0
                               ? __shfl_sync(~0u, index, __ffs(best) - 1)
                               : __reduce_min_sync(~0u, is_best ? index : uint32_t{kNone});
    return {most, static_cast<int>(first)};
  }

  // Takes the keys from all groups except the best ones.
  __device__ void KeepBestGroups() {
    const RouterRule& rule = p_.rule;
    const int size = rule.num_experts / rule.num_groups;
    uint32_t group_key = 0;  // of the group that is this lane
    for (int group = 0; group < rule.num_groups; ++group) {
      const int begin = group * size, end = begin + size;
      const Best first = FindBest(begin, end, -1);
      float score = ValueOf(first.key);
      if (rule.group_score == GroupScore::kTwoBestSum && size > 1) {
        score += ValueOf(FindBest(begin, end, first.index).key);
      }
      if (lane_ == group) group_key = KeyOf(score);
    }
    uint32_t kept = 0;  // bits
    for (int i = 0; i < rule.top_groups; ++i) {
      const uint32_t most = __reduce_max_sync(~0u, group_key);
      const int best = __ffs(__ballot_sync(~0u, group_key == most)) - 1;
      kept |= 1u << best;
      if (lane_ == best) group_key = 0;
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (Exists(i) && (kept >> (Expert(i) / size) & 1) == 0) keys_[i] = 0;
    }
  }
  // The best of this lane, which is not chosen yet.
  struct Candidate {
    uint32_t key = 0, index = kNone;
    float score = 0;
  };
  __device__ Candidate FindCandidate() const {
    Candidate best;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (keys_[i] > best.key) best = {keys_[i], static_cast<uint32_t>(Expert(i)), scores_[i]};
    }
    return best;
  }

  // Lane l keeps the l-th choice.
  __device__ int Choose() {
    int mine = 0;
    float weight = 0;
    Candidate candidate = FindCandidate();
    for (int choice = 0; choice < p_.rule.top_k; ++choice) {
      const int expert = BestOfLanes(candidate.key, candidate.index).index;
      const float score = __shfl_sync(~0u, candidate.score, expert % kWarp);
      if (lane_ == choice) mine = expert, weight = score;
      if (lane_ != expert % kWarp) continue;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        if (Expert(i) == expert) keys_[i] = 0;
      }
      candidate = FindCandidate();
    }
    if (IsBroken()) weight = NAN;
    if (p_.rule.renormalise) {
      const float sum = WarpSum(weight);
      weight /= p_.rule.score == RouterScore::kSigmoid ? sum + 1e-20f : sum;
    }
    if (lane_ >= p_.rule.top_k) return kNone;
    weight *= p_.rule.scale;
    if (p_.expert_scales != nullptr) weight *= p_.expert_scales[mine];
    const int64_t at = static_cast<int64_t>(token_) * p_.rule.top_k + lane_;
    p_.experts[at] = mine;
    p_.weights[at] = weight;
    return mine;
  }

  const RouteParams& p_;
  const int token_;
  const int lane_;
  float scores_[kPerLane];
  uint32_t keys_[kPerLane];
};

// Grid: one warp, of whose lanes each has a choice; of one token no two are alike. Bytes: the
// logits. Limit: latency, of the choices one after the other.
template <int kPerLane>
__global__ void __launch_bounds__(kWarp) RouteOne(const __grid_constant__ RouteParams p) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int lane = static_cast<int>(threadIdx.x);
  const int mine = TokenRouter<kPerLane>(p, 0).Run();
  int place = 0, offsets[kPerLane] = {};  // sums of the choices of lower experts
  for (int choice = 0; choice < p.rule.top_k; ++choice) {
    const int expert = __shfl_sync(~0u, mine, choice);
    place += expert < mine;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) offsets[i] += expert < i * kWarp + lane;
  }
  if (lane < p.rule.top_k) p.pairs[place] = lane;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int expert = i * kWarp + lane;
    if (expert < p.rule.num_experts) p.offsets[expert] = offsets[i];
  }
  if (lane == 0) p.offsets[p.rule.num_experts] = p.rule.top_k;
}

// Grid: one CTA. Bytes: the logits. Limit: as above.
template <int kPerLane>
__global__ void __launch_bounds__(kSmallThreads) RouteFew(const __grid_constant__ RouteParams p) {
  __shared__ int next[RouterRule::kMaxExperts];  // of each expert, where its next pair goes
  ReleaseSuccessor();
  for (int i = threadIdx.x; i < p.rule.num_experts; i += kSmallThreads) next[i] = 0;
  WaitForPredecessor();
  for (int token = threadIdx.x / kWarp; token < p.num_tokens; token += kSmallThreads / kWarp) {
    TokenRouter<kPerLane>(p, token).Run();
  }
  __syncthreads();
  const int num_pairs = p.num_tokens * p.rule.top_k;
  for (int i = threadIdx.x; i < num_pairs; i += kSmallThreads) atomicAdd(&next[p.experts[i]], 1);
  __syncthreads();
  if (threadIdx.x < kWarp) SumBefore(next, p.rule.num_experts);
  __syncthreads();
  for (int i = threadIdx.x; i <= p.rule.num_experts; i += kSmallThreads) {
    p.offsets[i] = i < p.rule.num_experts ? next[i] : num_pairs;
  }
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  const int lane = threadIdx.x;
  for (int first = 0; first < num_pairs; first += kWarp) {
    const bool exists = first + lane < num_pairs;
    const int expert = exists ? p.experts[first + lane] : -1;
    const unsigned int alike = __match_any_sync(~0u, expert);
    const int rank = __popc(alike & ((1u << lane) - 1));
    if (exists) p.pairs[next[expert] + rank] = first + lane;
    __syncwarp();
    if (exists && rank == 0) next[expert] += __popc(alike);
    __syncwarp();
  }
}

// Grid: a warp for each token. Bytes: the logits. Limit: as above.
template <int kPerLane>
__global__ void __launch_bounds__(kChooseThreads)
    ChooseExperts(const __grid_constant__ RouteParams p) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int token = (blockIdx.x * kChooseThreads + threadIdx.x) / kWarp;
  if (token < p.num_tokens) TokenRouter<kPerLane>(p, token).Run();
}

// Grid: a CTA for each expert, which looks at all pairs twice, a part in each warp: it counts those
// of lower experts and its own, then places its own. Bytes: the experts of all pairs, from L2, for
// each CTA.
__global__ void __launch_bounds__(kSortThreads) SortPairs(const RouteParams p) {
  constexpr int kWarps = kSortThreads / kWarp;
  __shared__ int lower_of_warps[kWarps], own_of_warps[kWarps];
  ReleaseSuccessor();
  WaitForPredecessor();
  const int expert = static_cast<int>(blockIdx.x), num_pairs = p.num_tokens * p.rule.top_k;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int part = CeilDiv(num_pairs, kSortThreads) * kWarp;
  const int begin = min(warp * part, num_pairs), end = min(begin + part, num_pairs);
  int lower = 0, own = 0;
#pragma unroll 4
  for (int i = begin + lane; i < end; i += kWarp) {
    const int other = p.experts[i];
    lower += other < expert;
    own += other == expert;
  }
  lower = __reduce_add_sync(~0u, lower);
  own = __reduce_add_sync(~0u, own);
  if (lane == 0) lower_of_warps[warp] = lower, own_of_warps[warp] = own;
  __syncthreads();
  int first = 0, next = 0;  // of the expert, of this warp
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    first += lower_of_warps[i];
    if (i < warp) next += own_of_warps[i];
  }
  if (threadIdx.x == 0) p.offsets[expert] = first;
  if (threadIdx.x == 0 && expert == p.rule.num_experts - 1) p.offsets[expert + 1] = num_pairs;
  next += first;
  if (own == 0) return;
#pragma unroll 4
  for (int i = begin; i < end; i += kWarp) {
    const bool is_own = i + lane < end && p.experts[i + lane] == expert;
    const unsigned int alike = __ballot_sync(~0u, is_own);
    if (is_own) p.pairs[next + __popc(alike & ((1u << lane) - 1))] = i + lane;
    next += __popc(alike);
  }
}

struct CountParams {
  const int32_t* experts;  // [num_tokens, top_k]
  const int64_t* slots;    // [num_tokens] or null
  unsigned long long* counts;
  int num_pairs, top_k;
};

// Grid: a thread for each pair. Bytes: the experts. Limit: latency; launched only where somebody
// wants to know.
__global__ void __launch_bounds__(kChooseThreads) CountChoices(const CountParams p) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int pair = static_cast<int>(blockIdx.x * kChooseThreads + threadIdx.x);
  if (pair >= p.num_pairs || (p.slots != nullptr && p.slots[pair / p.top_k] < 0)) return;
  atomicAdd(&p.counts[p.experts[pair]], 1ull);
}

void LaunchCount(const RouteArgs& args, cudaStream_t stream) {
  const CountParams p = {.experts = args.out.experts.as<int32_t>(),
                         .slots = args.slots,
                         .counts = static_cast<unsigned long long*>(args.counts.data()),
                         .num_pairs = static_cast<int>(args.out.num_pairs()),
                         .top_k = args.rule.top_k};
  LaunchKernel(CountChoices, CeilDiv(p.num_pairs, kChooseThreads), kChooseThreads, 0, stream, p);
}

template <int kPerLane>
void LaunchFor(const RouteParams& p, cudaStream_t stream) {
  if (p.num_tokens == 1) return LaunchKernel(RouteOne<kPerLane>, 1, kWarp, 0, stream, p);
  if (p.num_tokens <= kMaxSmallTokens) {
    return LaunchKernel(RouteFew<kPerLane>, 1, kSmallThreads, 0, stream, p);
  }
  LaunchKernel(ChooseExperts<kPerLane>, CeilDiv(p.num_tokens, kChooseThreads / kWarp),
               kChooseThreads, 0, stream, p);
  LaunchKernel(SortPairs, p.rule.num_experts, kSortThreads, 0, stream, p);
}

void Launch(const RouteParams& p, cudaStream_t stream) {
  const int per_lane = CeilDiv(p.rule.num_experts, kWarp);
  if (per_lane == 1) return LaunchFor<1>(p, stream);
  if (per_lane <= 2) return LaunchFor<2>(p, stream);
  if (per_lane <= 4) return LaunchFor<4>(p, stream);
  if (per_lane <= 8) return LaunchFor<8>(p, stream);
  if (per_lane <= 16) return LaunchFor<16>(p, stream);
  LaunchFor<32>(p, stream);
}

}  // namespace

void LaunchRoute(const RouteArgs& args, cudaStream_t stream) {
  const Routing& out = args.out;
  if (out.num_tokens() == 0) {
    cudaMemsetAsync(out.offsets.data(), 0, out.offsets.dim(0) * sizeof(int32_t), stream);
    return;
  }
  const RouteParams p = {
      .logits = args.logits.as<float>(),
      .logits_stride = args.logits.row_stride(),
      .correction = args.correction.empty() ? nullptr : args.correction.as<float>(),
      .expert_scales = args.expert_scales.empty() ? nullptr : args.expert_scales.as<float>(),
      .experts = out.experts.as<int32_t>(),
      .weights = out.weights.as<float>(),
      .pairs = out.pairs.as<int32_t>(),
      .offsets = out.offsets.as<int32_t>(),
      .num_tokens = static_cast<int>(out.num_tokens()),
      .rule = args.rule};
  Launch(p, stream);
  if (!args.counts.empty()) LaunchCount(args, stream);
}

}  // namespace quire::cuda
