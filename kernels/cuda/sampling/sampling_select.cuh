// RowSelector: what one CTA can ask of one row of logits. It keeps the row's segments whose
// greatest logit reaches a floor, so that a pass over the row reads only those, and a list in
// shared memory for the few tokens that are left at the end. Weights are summed as integers or in a
// fixed order. Most of it is out of line: a draw runs each part once, and what it waits for is
// often its own instructions. All functions are called by all threads of the CTA. Device code only.
// A CTA has one row at a time and no other dynamic shared memory than SampleShared and the words
// behind it: they are reached by that name, as accesses through pointers, which may point anywhere,
// take longer.
#pragma once

#include "kernels/cuda/sampling/sampling_row.cuh"

namespace quire::cuda {

inline constexpr int kSampleThreads = 512;
inline constexpr int kSampleWarps = kSampleThreads / 32;
inline constexpr int kListSize = 2048;
inline constexpr int kNumBins = 2048;
inline constexpr int kFewTokens = 256;  // of which each pair is compared

struct SampleShared {
  SamplingRow row;
  double uniform;  // in [0, 1), of the row's draw
  uint64_t list[kListSize];
  uint32_t bins[kNumBins];
  uint64_t warp_sums[kSampleWarps];
  uint64_t scan[kSampleWarps];
  uint64_t weights[kFewTokens];
  uint64_t found_before;
  int32_t found;
  int32_t list_count;
};

__device__ inline SampleShared& Shared() {
  extern __shared__ __align__(16) unsigned char sample_shared[];
  return *reinterpret_cast<SampleShared*>(sample_shared);
}

// Behind it: two words per segment and a bit per token.
__device__ inline uint32_t* SegmentKeys() { return reinterpret_cast<uint32_t*>(&Shared() + 1); }
__device__ inline int32_t* Segments(int32_t num_segments) {
  return reinterpret_cast<int32_t*>(SegmentKeys() + num_segments);
}
__device__ inline uint32_t* BiasedIds(int32_t num_segments) {
  return SegmentKeys() + 2 * num_segments;
}
constexpr size_t DynamicSharedBytes(int32_t num_segments) {
  return sizeof(SampleShared) +
         static_cast<size_t>(num_segments) * (2 + kSegment / 32) * sizeof(uint32_t);
}

// Where a running sum first reaches a target, and the sum before it.
struct Found {
  int32_t index;
  uint64_t before;
};

// Equal steps of logits from the greatest down to a floor; -1 below it.
struct LogitBins {
  float max;
  float floor;
  float bins_per_logit;

  __device__ float Floor() const { return floor; }
  __device__ int operator()(int32_t, float logit) const {
    if (logit < floor) return -1;
    return min(static_cast<int>((max - logit) * bins_per_logit), kNumBins - 1);
  }
};

// Equal steps of ranks.
struct RankBins {
  uint64_t greatest;
  uint64_t least;
  int shift;

  __device__ float Floor() const { return RankFloor(least).Floor(); }
  __device__ int operator()(int32_t id, float logit) const {
    const uint64_t rank = RankOf(KeyOf(logit), id);
    return rank < least || rank > greatest ? -1 : static_cast<int>((greatest - rank) >> shift);
  }
};

template <typename Bins>
struct IsInBin {
  Bins bins;
  int index;

  __device__ float Floor() const { return bins.Floor(); }
  __device__ bool operator()(int32_t id, float logit) const { return bins(id, logit) == index; }
};

class RowSelector {
 public:
  __device__ explicit RowSelector(const LogitView& view)
      : view_(view), num_segments_(CeilDiv(view.vocab_size, kSegment)) {}

  // To be called before the two below.
  __device__ void ReadSegmentKeys(const SliceSummary* slices);

  // A key that k tokens or more have reached, and not many more: as many segments have such a
  // maximum. 0 where the segments are too few to tell.
  __device__ uint32_t FloorOfTop(int32_t k, uint32_t max_key) const;

  // From now on the passes below see the segments that reach the floor, in the order of their ids.
  __device__ void Prune(uint32_t floor);
  __device__ int32_t num_entries() const { return num_entries_; }

  // The sum of the tokens' weights, which FindId then knows.
  __device__ uint64_t Sum(const TokenWeight& weight);

  // The first id at which the weights of the ids up to it pass `target`, less than the last Sum.
  __device__ int32_t FindId(uint64_t target, const TokenWeight& weight) const;

  // The same among the entries [begin, end) of those that Prune left, or of all segments. Where
  // their weights do not pass the target, the last id that has one; -1 where none has.
  __device__ int32_t FindIdIn(bool are_entries, int32_t begin, int32_t end, uint64_t target,
                              const TokenWeight& weight) const;

  // Lists the ranks of the tokens for which is_wanted(id, logit), none of them below
  // is_wanted.Floor(), in any order. Returns how many there are, or some number greater than
  // kListSize where they do not fit.
  template <typename IsWanted>
  __device__ int32_t List(const IsWanted& is_wanted);

  // Sorts the first `count` of the list, the greatest first.
  __device__ void SortList(int32_t count);

  // How many of a sorted list are at least `least`.
  __device__ int32_t CountListed(int32_t count, uint64_t least) const;

  // Where the weights weight_of(list[i]) of the first `count` of the list sum to the target, which
  // target_of(sum of all) gives.
  template <typename WeightOf, typename TargetOf>
  __device__ Found FindInList(int32_t count, const WeightOf& weight_of,
                              const TargetOf& target_of) const {
    constexpr int kPerThread = kListSize / kSampleThreads;
    const auto first = static_cast<int32_t>(threadIdx.x) * kPerThread;
    uint64_t weights[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      weights[i] = first + i < count ? weight_of(Shared().list[first + i]) : 0;
    }
    return FindInSums(weights, target_of);
  }

  // The rank at which the weights of the tokens from the first of the ranking down reach `target`;
  // only tokens of keys in [floor, max_key] have any, `total` together or less. A token's weight
  // may lose or gain 2^-31 of the total.
  __device__ uint64_t SelectRank(uint32_t floor, uint32_t max_key, uint64_t target, uint64_t total,
                                 const TokenWeight& weight);

 private:
  struct Scanned {
    uint64_t before;
    uint64_t total;
  };

  __device__ static int Warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int32_t FirstId(int32_t segment) {
    return segment * kSegment + static_cast<int32_t>(threadIdx.x % 32) * 4;
  }
  // The first entry of a warp's contiguous share.
  __device__ int32_t FirstEntry(int warp) const { return num_entries_ * warp / kSampleWarps; }

  // Calls visit(id, logits) for the tokens of those segments, four of them on each lane of a warp,
  // but not where all of the warp's are below the floor. Beyond the vocabulary logits are
  // -infinity: they rank last and weigh nothing. A warp for which visit returns false, on all of
  // its lanes, sees no more.
  template <typename Visit>
  __device__ void ForEachFour(float floor, const Visit& visit) const;

  // The logits that view_.Load gave for ids [id, id + 4), with penalties, bias and mask.
  __device__ Four<float> Edited(int32_t id, Four<float> raw) const;

  __device__ Scanned Scan(uint64_t sum) const;
  __device__ void SortSmallList(int32_t count);

  // Where the running sum of all threads' weights in turn reaches target_of(total); the index
  // counts from the first thread's first.
  template <int kPerThread, typename TargetOf>
  __device__ Found FindInSums(const uint64_t (&weights)[kPerThread],
                              const TargetOf& target_of) const;

  // The bin, bin 0 first, at which the sums of the bins reach the target, in units of 2^unit_bits
  // of which all weights are fewer than 2^32. Tokens of bin -1 do not count.
  template <typename Bins>
  __device__ Found FindBin(uint64_t target, const Bins& bins, int unit_bits,
                           const TokenWeight& weight);

  // Sorts a list that holds all tokens from some rank to some lower one and returns the rank at
  // which their weights reach the target.
  __device__ uint64_t SelectListed(int32_t count, uint64_t target, const TokenWeight& weight);

  const LogitView view_;
  const int32_t num_segments_;
  int32_t num_entries_ = 0;
};

// The lowest id of the mask's greatest untouched logit, by all threads of the CTA. Needed where
// penalties, bias and bans leave nothing of a mask: rare, and then it has few tokens.
__device__ int32_t ArgMaxOfMask(const uint32_t* mask, const LogitView& raw);

}  // namespace quire::cuda

#include "kernels/cuda/sampling/sampling_select-inl.cuh"
