// The parts of RowSelector (sampling_select.cuh, which includes this).
#pragma once

#include "kernels/cuda/runtime/prefix_sums.cuh"
#include "kernels/cuda/sampling/sampling_select.cuh"

namespace quire::cuda {

// Adds weights to bins; equal bins in a row are one addition.
class BinAdder {
 public:
  // Bin -1: none.
  __device__ void Add(int bin, uint32_t weight) {
    const bool is_same = bin < 0 || bin == bin_;
    if (!is_same) atomicAdd(&Shared().bins[bin_], sum_);
    sum_ = bin < 0 ? sum_ : is_same ? sum_ + weight : weight;
    bin_ = is_same ? bin_ : bin;
  }

  __device__ void Flush() const { atomicAdd(&Shared().bins[bin_], sum_); }

 private:
  int bin_ = 0;
  uint32_t sum_ = 0;
};

__device__ inline void RowSelector::ReadSegmentKeys(const SliceSummary* slices) {
  uint32_t* segment_keys = SegmentKeys();
  __syncthreads();
#pragma unroll 2
  for (int32_t i = threadIdx.x; i < num_segments_; i += kSampleThreads) {
    segment_keys[i] = slices[i / kSegmentsPerSlice].segment_keys[i % kSegmentsPerSlice];
  }
  __syncthreads();
}

__noinline__ __device__ inline uint32_t RowSelector::FloorOfTop(int32_t k, uint32_t max_key) const {
  if (k > num_segments_) return 0;
  constexpr int kKeyBins = 256;
  constexpr int kPerLane = kKeyBins / 32;
  uint32_t* bins = Shared().bins;
  const uint32_t* segment_keys = SegmentKeys();
  // Bins of 2^-5 for logits from 8 to 16; the last round's hold all numbers.
  for (int shift = 15;; shift += 3) {
    if (threadIdx.x < kKeyBins) bins[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 2
    for (int32_t i = threadIdx.x; i < num_segments_; i += kSampleThreads) {
      const uint32_t bin = (max_key - segment_keys[i]) >> shift;
      if (bin < kKeyBins) atomicAdd(&bins[bin], 1u);
    }
    __syncthreads();
    if (Warp() == 0) {
      const int first = static_cast<int>(threadIdx.x) * kPerLane;
      int32_t sum = 0;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) sum += static_cast<int32_t>(bins[first + i]);
      const int32_t up_to = UpToLane(sum);
      if (threadIdx.x == 31 && up_to < k) Shared().found = -1;
      if (up_to >= k && up_to - sum < k) {
        int bin = first;
        for (int32_t count = up_to - sum + static_cast<int32_t>(bins[bin]); count < k; ++bin) {
          count += static_cast<int32_t>(bins[bin + 1]);
        }
        Shared().found = bin;
      }
    }
    __syncthreads();
    if (Shared().found < 0) continue;
    const uint64_t down = (static_cast<uint64_t>(Shared().found + 1) << shift) - 1;
    return max_key - static_cast<uint32_t>(min(down, uint64_t{max_key}));
  }
}

__noinline__ __device__ inline void RowSelector::Prune(uint32_t floor) {
  const uint32_t* segment_keys = SegmentKeys();
  int32_t* segments = Segments(num_segments_);
  const int32_t per_thread = CeilDiv(num_segments_, kSampleThreads);
  const int32_t begin = min(static_cast<int32_t>(threadIdx.x) * per_thread, num_segments_);
  const int32_t end = min(begin + per_thread, num_segments_);
  uint64_t count = 0;
#pragma unroll 1
  for (int32_t i = begin; i < end; ++i) count += segment_keys[i] >= floor ? 1 : 0;
  const Scanned scanned = Scan(count);
  auto at = static_cast<int32_t>(scanned.before);
#pragma unroll 1
  for (int32_t i = begin; i < end; ++i) {
    if (segment_keys[i] >= floor) segments[at++] = i;
  }
  num_entries_ = static_cast<int32_t>(scanned.total);
  __syncthreads();
}

// Few rows have penalties, a bias or a mask.
__noinline__ __device__ inline Four<float> RowSelector::Edited(int32_t id, Four<float> raw) const {
  const uint32_t bits = view_.LoadMask(id);
  return Masked(view_.Edit(id, raw, view_.LoadCounts(id)), bits);
}

template <typename Visit>
__device__ void RowSelector::ForEachFour(float floor, const Visit& visit) const {
  constexpr int kInFlight = 4;  // loads under way before the first is used
  const LogitView view = view_;
  const int32_t* segments = Segments(num_segments_);
  const bool is_edited = view.IsEdited();
  const int32_t end = FirstEntry(Warp() + 1);
  for (int32_t first = FirstEntry(Warp()); first < end; first += kInFlight) {
    Four<float> raw[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      raw[i] = view.Load(first + i < end ? FirstId(segments[first + i]) : view.vocab_size);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i >= end) break;
      const int32_t id = FirstId(segments[first + i]);
      const Four<float> logits = is_edited ? Edited(id, raw[i]) : Cleaned(raw[i]);
      const float greatest =
          fmaxf(fmaxf(logits.v[0], logits.v[1]), fmaxf(logits.v[2], logits.v[3]));
      // Lanes that went on by themselves would run the rest of the row one after the other.
      if (__all_sync(kAllLanes, greatest < floor)) continue;
      if (!visit(id, logits)) return;
      __syncwarp();
    }
  }
}

__noinline__ __device__ inline uint64_t RowSelector::Sum(const TokenWeight& weight) {
  const TokenWeight weight_of = weight;
  uint64_t sum = 0;
  ForEachFour(weight_of.Floor(), [&](int32_t id, const Four<float>& logits) {
    float four = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) four += weight_of(id + j, logits.v[j]);
    sum += __float2ull_rn(four);
    return true;
  });
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) Shared().warp_sums[Warp()] = sum;
  __syncthreads();
  uint64_t total = 0;
  for (uint64_t warp_sum : Shared().warp_sums) total += warp_sum;
  return total;
}

__device__ inline int32_t RowSelector::FindId(uint64_t target, const TokenWeight& weight) const {
  int warp = 0;
  while (warp < kSampleWarps - 1 && target >= Shared().warp_sums[warp]) {
    target -= Shared().warp_sums[warp++];
  }
  return FindIdIn(true, FirstEntry(warp), FirstEntry(warp + 1), target, weight);
}

// The next barrier must come before the next Scan.
__noinline__ __device__ inline RowSelector::Scanned RowSelector::Scan(uint64_t sum) const {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint64_t up_to = UpToLane(sum);
  if (lane == 31) Shared().scan[Warp()] = up_to;
  __syncthreads();
  const uint64_t warp_sum = lane < kSampleWarps ? Shared().scan[lane] : 0;
  const uint64_t up_to_warp = UpToLane(warp_sum);
  const uint64_t before_warp = __shfl_sync(0xffffffff, up_to_warp - warp_sum, Warp());
  return {.before = before_warp + up_to - sum, .total = __shfl_sync(0xffffffff, up_to_warp, 31)};
}

template <int kPerThread, typename TargetOf>
__device__ Found RowSelector::FindInSums(const uint64_t (&weights)[kPerThread],
                                         const TargetOf& target_of) const {
  uint64_t sum = 0;
#pragma unroll
  for (uint64_t weight : weights) sum += weight;
  const Scanned scanned = Scan(sum);
  uint64_t before = scanned.before;
  // Sums rounded elsewhere may put the target a little too high.
  const uint64_t target = min(static_cast<uint64_t>(target_of(scanned.total)), scanned.total);
  if (threadIdx.x == 0 && target == 0) {
    Shared().found = 0;
    Shared().found_before = 0;
  }
  if (before < target && before + sum >= target) {
    int index = 0;
#pragma unroll
    for (int i = 0; i < kPerThread - 1; ++i) {
      if (index != i || before + weights[i] >= target) continue;
      before += weights[i];
      index = i + 1;
    }
    Shared().found = static_cast<int32_t>(threadIdx.x) * kPerThread + index;
    Shared().found_before = before;
  }
  __syncthreads();
  return {Shared().found, Shared().found_before};
}

__noinline__ __device__ inline int32_t RowSelector::FindIdIn(bool are_entries, int32_t begin,
                                                             int32_t end, uint64_t target,
                                                             const TokenWeight& weight) const {
  const TokenWeight weight_of = weight;
  const int32_t* segments = Segments(num_segments_);
  const auto segment_of = [&](int32_t entry) { return are_entries ? segments[entry] : entry; };
  while (true) {
    uint64_t left = target;
    uint64_t sum_of_all = 0;
    for (int32_t first = begin; first < end; first += kSampleWarps) {
      const int32_t entry = first + Warp();
      const int32_t id = entry < end ? FirstId(segment_of(entry)) : view_.vocab_size;
      Four<float> logits = view_.Load(id);
      logits = view_.IsEdited() ? Edited(id, logits) : Cleaned(logits);
      uint64_t weights[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        weights[j] = id + j < view_.vocab_size ? __float2ull_rn(weight_of(id + j, logits.v[j])) : 0;
      }
      uint64_t total = 0;
      const Found found = FindInSums(weights, [&](uint64_t sum) {
        total = sum;
        return left < sum ? left + 1 : 0;
      });
      if (left < total) {
        return segment_of(first + found.index / kSegment) * kSegment + found.index % kSegment;
      }
      left -= total;
      sum_of_all += total;
    }
    if (sum_of_all == 0) return -1;
    target = sum_of_all - 1;
  }
}

template <typename IsWanted>
__noinline__ __device__ int32_t RowSelector::List(const IsWanted& is_wanted) {
  const IsWanted wants = is_wanted;
  __syncthreads();
  if (threadIdx.x == 0) Shared().list_count = 0;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t lower_lanes = (1u << lane) - 1;
  ForEachFour(wants.Floor(), [&](int32_t id, const Four<float>& logits) {
    bool is_mine[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) is_mine[j] = wants(id + j, logits.v[j]);
    if (!__any_sync(kAllLanes, is_mine[0] || is_mine[1] || is_mine[2] || is_mine[3])) return true;
    int32_t places[4];  // among the warp's
    int32_t count = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t lanes = __ballot_sync(kAllLanes, is_mine[j]);
      places[j] = count + __popc(lanes & lower_lanes);
      count += __popc(lanes);
    }
    int32_t first = 0;
    if (lane == 0) first = atomicAdd(&Shared().list_count, count);
    first = __shfl_sync(kAllLanes, first, 0);
    if (first + count > kListSize) return false;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (is_mine[j]) Shared().list[first + places[j]] = RankOf(KeyOf(logits.v[j]), id + j);
    }
    return true;
  });
  __syncthreads();
  return Shared().list_count;
}

// Every item's place is the number of greater ones; an item has a group of lanes to count them.
__device__ inline void RowSelector::SortSmallList(int32_t count) {
  uint64_t* list = Shared().list;
  int group = 1;
  while (group < 32 && 2 * group * count <= kSampleThreads) group *= 2;
  const int item = static_cast<int>(threadIdx.x) / group;
  const int part = static_cast<int>(threadIdx.x) % group;
  const uint64_t mine = item < count ? list[item] : 0;
  int place = 0;
#pragma unroll 4
  for (int i = part; i < count; i += group) place += list[i] > mine ? 1 : 0;
  for (int step = group / 2; step > 0; step /= 2) {
    place += __shfl_xor_sync(0xffffffff, place, step);
  }
  __syncthreads();
  if (part == 0 && item < count) list[place] = mine;
  __syncthreads();
}

// Long ones are sorted bitonically. A warp's pairs of a step of at most 32 are its own 64 items.
__noinline__ __device__ inline void RowSelector::SortList(int32_t count) {
  uint64_t* list = Shared().list;
  __syncthreads();
  if (count <= kSampleThreads) {
    SortSmallList(count);
    return;
  }
  int size = 2 * kSampleThreads;
  while (size < count) size *= 2;
#pragma unroll 1
  for (int i = count + static_cast<int>(threadIdx.x); i < size; i += kSampleThreads) list[i] = 0;
  __syncthreads();
  for (int span = 2; span <= size; span *= 2) {
#pragma unroll 1
    for (int step = span / 2; step > 0; step /= 2) {
#pragma unroll 1
      for (int pair = threadIdx.x; pair < size / 2; pair += kSampleThreads) {
        const int low = 2 * pair - (pair & (step - 1));
        const uint64_t a = list[low];
        const uint64_t b = list[low + step];
        if ((a < b) == ((low & span) == 0)) {
          list[low] = b;
          list[low + step] = a;
        }
      }
      if (step > 32 || (step == 1 && span > 32)) {
        __syncthreads();
      } else {
        __syncwarp();
      }
    }
  }
}

__noinline__ __device__ inline int32_t RowSelector::CountListed(int32_t count,
                                                                uint64_t least) const {
  int32_t low = 0;
  while (low < count) {
    const int32_t middle = (low + count) / 2;
    if (Shared().list[middle] >= least) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}

template <typename Bins>
__noinline__ __device__ Found RowSelector::FindBin(uint64_t target, const Bins& bins, int unit_bits,
                                                   const TokenWeight& weight) {
  const Bins bin_of = bins;
  const TokenWeight weight_of = weight;
  __syncthreads();
  for (int i = threadIdx.x; i < kNumBins; i += kSampleThreads) Shared().bins[i] = 0;
  __syncthreads();
  const float units_per_weight = 1.0f / static_cast<float>(uint64_t{1} << unit_bits);
  BinAdder adder;
  ForEachFour(bin_of.Floor(), [&](int32_t id, const Four<float>& logits) {
    int bins_of[4];
    uint32_t weights[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      bins_of[j] = bin_of(id + j, logits.v[j]);
      weights[j] = __float2uint_rn(weight_of.OfKept(logits.v[j]) * units_per_weight);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) adder.Add(bins_of[j], weights[j]);
    return true;
  });
  adder.Flush();
  __syncthreads();
  constexpr int kPerThread = kNumBins / kSampleThreads;
  const int first = static_cast<int>(threadIdx.x) * kPerThread;
  uint64_t sums[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) sums[i] = uint64_t{Shared().bins[first + i]} << unit_bits;
  return FindInSums(sums, [&](uint64_t) { return target; });
}

__noinline__ __device__ inline uint64_t RowSelector::SelectListed(int32_t count, uint64_t target,
                                                                  const TokenWeight& weight) {
  SortList(count);
  const auto weight_of = [&](uint64_t rank) {
    return __float2ull_rn(weight(IdOfRank(rank), LogitOf(KeyOfRank(rank))));
  };
  return Shared().list[FindInList(count, weight_of, [&](uint64_t) { return target; }).index];
}

__noinline__ __device__ inline uint64_t RowSelector::SelectRank(uint32_t floor, uint32_t max_key,
                                                                uint64_t target, uint64_t total,
                                                                const TokenWeight& weight) {
  // Sums of 32 bits, with a bit to spare for rounding: 64-bit atomics in shared memory are loops.
  const int unit_bits = max(0, 33 - __clzll(static_cast<int64_t>(total)));
  // Bins of equal width split a usual row so well that one is short enough to be sorted.
  const float max_logit = LogitOf(max_key);
  const float floor_logit = LogitOf(floor);
  const float width = max_logit - floor_logit;
  if (width > 0 && width < FLT_MAX) {  // false where the floor is no number
    const LogitBins bins = {max_logit, floor_logit, kNumBins / width};
    const Found bin = FindBin(target, bins, unit_bits, weight);
    const int32_t count = List(IsInBin<LogitBins>{bins, bin.index});
    if (count <= kListSize) return SelectListed(count, target - bin.before, weight);
  }
  // Else by ranks, 11 bits at a time.
  RankBins bins = {.greatest = RankOf(max_key, 0), .least = LeastRankOf(floor), .shift = 0};
  while (true) {
    bins.shift = max(0, 53 - __clzll(static_cast<int64_t>(bins.greatest - bins.least)));
    const Found bin = FindBin(target, bins, unit_bits, weight);
    target -= bin.before;
    bins.greatest -= static_cast<uint64_t>(bin.index) << bins.shift;
    const uint64_t steps = (uint64_t{1} << bins.shift) - 1;
    bins.least = bins.greatest - min(bins.greatest - bins.least, steps);
    if (bins.least == bins.greatest) return bins.greatest;
    bins.shift = 63;  // one bin
    const int32_t count = List(IsInBin<RankBins>{bins, 0});
    if (count <= kListSize) return SelectListed(count, target, weight);
  }
}

__noinline__ __device__ inline int32_t ArgMaxOfMask(const uint32_t* mask, const LogitView& raw) {
  uint64_t best = RankOf(0, 0);  // below all logits
  const auto num_words = static_cast<int32_t>(MaskWords(raw.vocab_size));
#pragma unroll 1
  for (int32_t word = threadIdx.x; word < num_words; word += kSampleThreads) {
    for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      const int32_t id = word * 32 + __ffs(static_cast<int>(bits)) - 1;
      if (id >= raw.vocab_size) break;
      best = max(best, RankOf(KeyOf(Clean(raw.logits[id])), id));
    }
  }
  for (int step = 16; step > 0; step /= 2) {
    best = max(best, __shfl_xor_sync(0xffffffff, best, step));
  }
  if (threadIdx.x % 32 == 0) Shared().warp_sums[threadIdx.x / 32] = best;
  __syncthreads();
  for (const uint64_t of_warp : Shared().warp_sums) best = max(best, of_warp);
  return IdOfRank(best);
}

}  // namespace quire::cuda
