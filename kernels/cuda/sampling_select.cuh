// RowSelector: what one CTA can ask of one row of logits. It keeps the row's chunks whose greatest
// logit reaches a floor, so that a pass over the row reads only those, and a list in shared memory
// for the few tokens that are left at the end. Weights are fixed-point integers: no order of
// addition changes a result. All functions are called by all threads of the CTA. Device code only.
#pragma once

#include <cub/block/block_scan.cuh>

#include "kernels/cuda/sampling_row.cuh"

namespace quire::cuda {

inline constexpr int kSampleThreads = 512;
inline constexpr int kSampleWarps = kSampleThreads / 32;
inline constexpr int kListSize = 2048;
inline constexpr int kNumBins = 2048;

using SampleScan = cub::BlockScan<uint64_t, kSampleThreads, cub::BLOCK_SCAN_WARP_SCANS>;

struct SelectShared {
  uint64_t list[kListSize];
  uint32_t bins[2][kNumBins];  // low and high words of sums: 64-bit atomics would be loops
  SampleScan::TempStorage scan;
  uint64_t warp_sums[kSampleWarps];
  uint64_t found_before;
  int32_t found;
  int32_t list_count;
};

// Where a running sum first reaches a target, and the sum before it.
struct Found {
  int32_t index;
  uint64_t before;
};

// Adds weights to bins; equal bins in a row are one addition.
class BinAdder {
 public:
  __device__ explicit BinAdder(SelectShared& shared) : shared_(shared) {}

  __device__ void Add(int bin, uint64_t weight) {
    if (bin != bin_) {
      Flush();
      bin_ = bin;
    }
    sum_ += weight;
  }

  __device__ void Flush() {
    if (sum_ == 0) return;
    const auto low = static_cast<uint32_t>(sum_);
    const uint32_t carry = atomicAdd(&shared_.bins[0][bin_], low) + low < low ? 1 : 0;
    const uint32_t high = static_cast<uint32_t>(sum_ >> 32) + carry;
    if (high != 0) atomicAdd(&shared_.bins[1][bin_], high);
    sum_ = 0;
  }

 private:
  SelectShared& shared_;
  int bin_ = 0;
  uint64_t sum_ = 0;
};

class RowSelector {
 public:
  // chunk_keys and chunks have room for a word per chunk; all are shared memory.
  __device__ RowSelector(const LogitView& view, SelectShared& shared, uint32_t* chunk_keys,
                         int32_t* chunks)
      : view_(view),
        shared_(shared),
        chunk_keys_(chunk_keys),
        chunks_(chunks),
        num_chunks_(CeilDiv(view.vocab_size, kChunk)) {}

  // To be called before the two below.
  __device__ void ReadChunkKeys(const SliceSummary* slices) {
    __syncthreads();
    for (int32_t i = threadIdx.x; i < num_chunks_; i += kSampleThreads) {
      chunk_keys_[i] = slices[i / kChunksPerSlice].chunk_keys[i % kChunksPerSlice];
    }
    __syncthreads();
  }

  // A key that k tokens or more have reached, and not many more: as many chunks have such a
  // maximum. 0 where the chunks are too few to tell.
  __device__ uint32_t FloorOfTop(int32_t k, uint32_t max_key) {
    if (k > num_chunks_) return 0;
    uint32_t low = 0;  // reached by k chunks; 0 until such a key is known
    uint32_t high = max_key + 1;
    uint32_t stride = 1 << 19;  // half a unit for logits from 8 to 16
    while (high - low > 1) {
      const uint32_t middle = high - (low > 0 ? (high - low) / 2 : min(stride, high / 2));
      const int32_t count = CountChunks(middle);
      stride *= 2;
      if (count < k) {
        high = middle;
        continue;
      }
      low = middle;
      if (count <= k + k / 4 + 4) break;
    }
    return low;
  }

  // From now on the passes below see the chunks that reach the floor, in the order of their ids.
  __device__ void Prune(uint32_t floor) {
    const int32_t per_thread = CeilDiv(num_chunks_, kSampleThreads);
    const int32_t begin = min(static_cast<int32_t>(threadIdx.x) * per_thread, num_chunks_);
    const int32_t end = min(begin + per_thread, num_chunks_);
    uint64_t count = 0;
    for (int32_t i = begin; i < end; ++i) count += chunk_keys_[i] >= floor ? 1 : 0;
    uint64_t at;
    uint64_t total;
    __syncthreads();
    SampleScan(shared_.scan).ExclusiveSum(count, at, total);
    for (int32_t i = begin; i < end; ++i) {
      if (chunk_keys_[i] >= floor) chunks_[at++] = i;
    }
    num_entries_ = static_cast<int32_t>(total);
    __syncthreads();
  }

  // Calls visit(id, logit) once per token of those chunks, each on some thread.
  template <typename Visit>
  __device__ void ForEach(const Visit& visit) const {
    constexpr int kInFlight = 4;  // loads under way before the first is used
    const int32_t end = FirstEntry(Warp() + 1);
    for (int32_t first = FirstEntry(Warp()); first < end; first += kInFlight) {
      Four<float> raw[kInFlight];
      int32_t ids[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        ids[i] = first + i < end ? FirstId(chunks_[first + i]) : view_.vocab_size;
        raw[i] = view_.Load(ids[i]);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const Four<float> logits = Edited(ids[i], raw[i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (ids[i] + j < view_.vocab_size) visit(ids[i] + j, logits.v[j]);
        }
      }
    }
  }

  // The sum of weight_of(id, logit), which FindId then knows.
  template <typename WeightOf>
  __device__ uint64_t Sum(const WeightOf& weight_of) {
    uint64_t sum = 0;
    ForEach([&](int32_t id, float logit) { sum += weight_of(id, logit); });
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared_.warp_sums[Warp()] = sum;
    __syncthreads();
    uint64_t total = 0;
    for (uint64_t warp_sum : shared_.warp_sums) total += warp_sum;
    return total;
  }

  // The first id at which the weights of the ids up to it pass `target`, less than the last Sum.
  template <typename WeightOf>
  __device__ int32_t FindId(uint64_t target, const WeightOf& weight_of) {
    int warp = 0;
    while (warp < kSampleWarps - 1 && target >= shared_.warp_sums[warp]) {
      target -= shared_.warp_sums[warp++];
    }
    const auto chunk_of = [&](int32_t entry) { return chunks_[entry]; };
    return FindIdIn(FirstEntry(warp), FirstEntry(warp + 1), chunk_of, target, weight_of);
  }

  // The same among the chunks chunk_of(entry) of entries [begin, end). Where their weights do not
  // pass the target, the last id that has one; -1 where none has.
  template <typename ChunkOf, typename WeightOf>
  __device__ int32_t FindIdIn(int32_t begin, int32_t end, const ChunkOf& chunk_of, uint64_t target,
                              const WeightOf& weight_of);

  // Lists the ranks of the tokens for which is_wanted(id, logit), in any order. Returns how many
  // there are, or some number greater than kListSize where they do not fit.
  template <typename IsWanted>
  __device__ int32_t List(const IsWanted& is_wanted) {
    __syncthreads();
    if (threadIdx.x == 0) shared_.list_count = 0;
    __syncthreads();
    bool is_full = false;
    ForEach([&](int32_t id, float logit) {
      if (is_full || !is_wanted(id, logit)) return;
      const int32_t at = atomicAdd(&shared_.list_count, 1);
      is_full = at >= kListSize;
      if (!is_full) shared_.list[at] = RankOf(KeyOf(logit), id);
    });
    __syncthreads();
    return shared_.list_count;
  }

  // Sorts the first `count` of the list, the greatest first.
  __device__ void SortList(int32_t count);

  // How many of a sorted list are at least `least`.
  __device__ int32_t CountListed(int32_t count, uint64_t least) const {
    int32_t low = 0;
    while (low < count) {
      const int32_t middle = (low + count) / 2;
      if (shared_.list[middle] >= least) {
        low = middle + 1;
      } else {
        count = middle;
      }
    }
    return low;
  }

  // Where the weights weight_of(list[i]) of the first `count` of the list sum to the target, which
  // target_of(sum of all) gives.
  template <typename WeightOf, typename TargetOf>
  __device__ Found FindInList(int32_t count, const WeightOf& weight_of, const TargetOf& target_of) {
    constexpr int kPerThread = kListSize / kSampleThreads;
    const auto first = static_cast<int32_t>(threadIdx.x) * kPerThread;
    return FindInSums<kPerThread>(
        [&](int i) { return first + i < count ? weight_of(shared_.list[first + i]) : 0; },
        target_of);
  }

  // The rank at which the weights of the tokens from the first of the ranking down reach `target`.
  // Only tokens of keys in [floor, max_key] have weight_of(id, logit) > 0.
  template <typename WeightOf>
  __device__ uint64_t SelectRank(uint32_t floor, uint32_t max_key, uint64_t target,
                                 const WeightOf& weight_of);

  __device__ const uint64_t* list() const { return shared_.list; }
  __device__ uint64_t* list() { return shared_.list; }

 private:
  __device__ static int Warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int32_t FirstId(int32_t chunk) {
    return chunk * kChunk + static_cast<int32_t>(threadIdx.x % 32) * 4;
  }
  // Of a warp's contiguous share.
  __device__ int32_t FirstEntry(int warp) const { return num_entries_ * warp / kSampleWarps; }

  __device__ Four<float> Edited(int32_t id, const Four<float>& raw) const {
    return view_.IsEdited() ? LoadEdited(view_, id, raw) : Cleaned(raw);
  }

  __device__ int32_t CountChunks(uint32_t floor) const {
    int32_t count = 0;
    for (int32_t first = 0; first < num_chunks_; first += kSampleThreads) {
      const int32_t i = first + static_cast<int32_t>(threadIdx.x);
      count += __syncthreads_count(i < num_chunks_ && chunk_keys_[i] >= floor ? 1 : 0);
    }
    return count;
  }

  // Where the running sum of weight_of(0) .. weight_of(kPerThread - 1) of all threads in turn
  // reaches target_of(total); the index counts from the first thread's first.
  template <int kPerThread, typename WeightOf, typename TargetOf>
  __device__ Found FindInSums(const WeightOf& weight_of, const TargetOf& target_of);

  // The bin, bin 0 first, at which the sums of the bins reach the target. Tokens of a negative bin
  // do not count.
  template <typename BinOf, typename WeightOf>
  __device__ Found FindBin(uint64_t target, const BinOf& bin_of, const WeightOf& weight_of);

  // Sorts a list that holds all tokens from some rank to some lower one and returns the rank at
  // which their weights reach the target.
  template <typename WeightOf>
  __device__ uint64_t SelectListed(int32_t count, uint64_t target, const WeightOf& weight_of) {
    SortList(count);
    const Found found = FindInList(
        count, [&](uint64_t rank) { return weight_of(IdOfRank(rank), LogitOf(KeyOfRank(rank))); },
        [&](uint64_t) { return target; });
    return shared_.list[found.index];
  }

  const LogitView& view_;
  SelectShared& shared_;
  uint32_t* const chunk_keys_;
  int32_t* const chunks_;
  const int32_t num_chunks_;
  int32_t num_entries_ = 0;
};

template <int kPerThread, typename WeightOf, typename TargetOf>
__device__ Found RowSelector::FindInSums(const WeightOf& weight_of, const TargetOf& target_of) {
  uint64_t sum = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) sum += weight_of(i);
  uint64_t before;
  uint64_t total;
  __syncthreads();
  SampleScan(shared_.scan).ExclusiveSum(sum, before, total);
  // Sums rounded elsewhere may put the target a little too high.
  const uint64_t target = min(static_cast<uint64_t>(target_of(total)), total);
  if (threadIdx.x == 0 && target == 0) {
    shared_.found = 0;
    shared_.found_before = 0;
  }
  if (before < target && before + sum >= target) {
    int index = 0;
#pragma unroll
    for (int i = 0; i < kPerThread - 1; ++i) {
      const uint64_t weight = weight_of(i);
      if (index != i || before + weight >= target) continue;
      before += weight;
      index = i + 1;
    }
    shared_.found = static_cast<int32_t>(threadIdx.x) * kPerThread + index;
    shared_.found_before = before;
  }
  __syncthreads();
  const Found found = {shared_.found, shared_.found_before};
  __syncthreads();
  return found;
}

template <typename ChunkOf, typename WeightOf>
__device__ int32_t RowSelector::FindIdIn(int32_t begin, int32_t end, const ChunkOf& chunk_of,
                                         uint64_t target, const WeightOf& weight_of) {
  while (true) {
    uint64_t left = target;
    uint64_t sum_of_all = 0;
    for (int32_t first = begin; first < end; first += kSampleWarps) {
      const int32_t entry = first + Warp();
      const int32_t id = entry < end ? FirstId(chunk_of(entry)) : view_.vocab_size;
      const Four<float> logits = Edited(id, view_.Load(id));
      const auto weight_at = [&](int j) {
        return id + j < view_.vocab_size ? weight_of(id + j, logits.v[j]) : uint64_t{0};
      };
      uint64_t total = 0;
      const Found found = FindInSums<4>(weight_at, [&](uint64_t sum) {
        total = sum;
        return left < sum ? left + 1 : 0;
      });
      if (left < total) {
        return chunk_of(first + found.index / kChunk) * kChunk + found.index % kChunk;
      }
      left -= total;
      sum_of_all += total;
    }
    if (sum_of_all == 0) return -1;
    target = sum_of_all - 1;
  }
}

// Bitonic, in place. A warp's pairs of a step of at most 32 are its own 64 elements.
__device__ inline void RowSelector::SortList(int32_t count) {
  uint64_t* list = shared_.list;
  int size = 64;
  while (size < count) size *= 2;
  __syncthreads();
  for (int i = count + static_cast<int>(threadIdx.x); i < size; i += kSampleThreads) list[i] = 0;
  __syncthreads();
  for (int span = 2; span <= size; span *= 2) {
    for (int step = span / 2; step > 0; step /= 2) {
      for (int pair = threadIdx.x; pair < size / 2; pair += kSampleThreads) {
        const int low = 2 * pair - (pair & (step - 1));
        const uint64_t a = list[low];
        const uint64_t b = list[low + step];
        if ((a < b) == ((low & span) == 0)) {
          list[low] = b;
          list[low + step] = a;
        }
      }
      if (step > 32 || (step == 1 && span >= 64)) {
        __syncthreads();
      } else {
        __syncwarp();
      }
    }
  }
}

template <typename BinOf, typename WeightOf>
__device__ Found RowSelector::FindBin(uint64_t target, const BinOf& bin_of,
                                      const WeightOf& weight_of) {
  __syncthreads();
  for (int i = threadIdx.x; i < kNumBins; i += kSampleThreads) {
    shared_.bins[0][i] = 0;
    shared_.bins[1][i] = 0;
  }
  __syncthreads();
  BinAdder adder(shared_);
  ForEach([&](int32_t id, float logit) {
    const int bin = bin_of(id, logit);
    if (bin >= 0) adder.Add(bin, weight_of(id, logit));
  });
  adder.Flush();
  __syncthreads();
  constexpr int kPerThread = kNumBins / kSampleThreads;
  const int first = static_cast<int>(threadIdx.x) * kPerThread;
  return FindInSums<kPerThread>(
      [&](int i) {
        return uint64_t{shared_.bins[1][first + i]} << 32 | shared_.bins[0][first + i];
      },
      [&](uint64_t) { return target; });
}

template <typename WeightOf>
__device__ uint64_t RowSelector::SelectRank(uint32_t floor, uint32_t max_key, uint64_t target,
                                            const WeightOf& weight_of) {
  // Bins of equal width split a usual row so well that one is short enough to be sorted.
  const float max_logit = LogitOf(max_key);
  const float width = max_logit - LogitOf(floor);
  if (width > 0 && width < FLT_MAX) {  // false where the floor is no number
    const float bins_per_logit = kNumBins / width;
    const auto bin_of = [&](int32_t, float logit) {
      if (KeyOf(logit) < floor) return -1;
      return min(static_cast<int>((max_logit - logit) * bins_per_logit), kNumBins - 1);
    };
    const Found bin = FindBin(target, bin_of, weight_of);
    const int32_t count =
        List([&](int32_t id, float logit) { return bin_of(id, logit) == bin.index; });
    if (count <= kListSize) return SelectListed(count, target - bin.before, weight_of);
  }
  // Ranks, 11 bits at a time.
  uint64_t least = LeastRankOf(floor);
  uint64_t greatest = RankOf(max_key, 0);
  while (true) {
    const int shift = max(0, 53 - __clzll(static_cast<int64_t>(greatest - least)));
    const auto bin_of = [&](int32_t id, float logit) {
      const uint64_t rank = RankOf(KeyOf(logit), id);
      return rank < least || rank > greatest ? -1 : static_cast<int>((greatest - rank) >> shift);
    };
    const Found bin = FindBin(target, bin_of, weight_of);
    target -= bin.before;
    greatest -= static_cast<uint64_t>(bin.index) << shift;
    least = greatest - min(greatest - least, (uint64_t{1} << shift) - 1);
    if (least == greatest) return greatest;
    const int32_t count = List([&](int32_t id, float logit) {
      const uint64_t rank = RankOf(KeyOf(logit), id);
      return rank >= least && rank <= greatest;
    });
    if (count <= kListSize) return SelectListed(count, target, weight_of);
  }
}

}  // namespace quire::cuda
