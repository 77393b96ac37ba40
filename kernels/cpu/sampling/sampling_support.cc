#include "kernels/cpu/sampling/sampling_support.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace quire::cpu {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// With top-p and no other limit, the tokens of this many of the best blocks nearly always hold
// enough mass.
constexpr int64_t kFirstGuess = 256;

template <typename Fn>
void ForEachFrom(const LogitRow& row, float floor, Fn fn) {
  for (int64_t block = 0; block < NumLogitBlocks(row.vocab_size); ++block) {
    if (row.block_max[block] < floor) continue;
    const int64_t begin = block * kLogitBlock;
    const int64_t end = std::min(begin + kLogitBlock, row.vocab_size);
    for (int64_t id = begin; id < end; ++id) {
      if (row.logits[id] >= floor) fn(id);
    }
  }
}

float NthLargestOf(std::vector<float>& values, int64_t n) {
  std::nth_element(values.begin(), values.begin() + (n - 1), values.end(), std::greater<float>());
  return values[n - 1];
}

double SetWeights(const LogitRow& row, float inverse_temperature, SamplingScratch& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  std::vector<float>& values = scratch.values;
  values.clear();
  for (const Candidate& candidate : candidates) values.push_back(candidate.logit);
  LogitWeights(values.data(), static_cast<int64_t>(values.size()), row.max, inverse_temperature,
               values.data());
  double sum = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].weight = values[i];
    sum += values[i];
  }
  return sum;
}

double TotalWeight(const LogitRow& row, float inverse_temperature, SamplingScratch& scratch) {
  SumLogitWeights(row.logits, row.vocab_size, row.max, inverse_temperature,
                  scratch.block_sum.data());
  const auto begin = scratch.block_sum.begin();
  return std::accumulate(begin, begin + NumLogitBlocks(row.vocab_size), 0.0);
}

// The first of the ranking at which the sum, `before` to start with, reaches `mass`; else the last.
// Halves the range that holds it, partitioning only that range.
Candidate FindMass(std::vector<Candidate>& candidates, double before, double mass) {
  auto begin = candidates.begin();
  auto end = candidates.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, RanksBefore);
    const double first_half = std::accumulate(
        begin, middle, before,
        [](double sum, const Candidate& candidate) { return sum + candidate.weight; });
    if (first_half >= mass) {
      end = middle;
    } else {
      before = first_half;
      begin = middle;
    }
  }
  return *begin;
}

// The last candidate of the ranking that top-p keeps. Only the slice of logits that holds it is
// looked at closely.
Candidate LastWithinMass(const LogitRow& row, float inverse_temperature, double mass,
                         SamplingScratch& scratch) {
  constexpr int kNumSlices = 256;
  const float slices_per_logit = 16 * inverse_temperature;  // the last slice begins at exp(-16)
  const auto slice_of = [&](const Candidate& candidate) {
    const float slice = (row.max - candidate.logit) * slices_per_logit;
    return static_cast<int>(std::min(slice, kNumSlices - 1.0f));
  };
  double slice_mass[kNumSlices] = {};
  for (const Candidate& candidate : scratch.candidates) {
    slice_mass[slice_of(candidate)] += candidate.weight;
  }
  double before = 0;
  int slice = 0;
  for (; slice < kNumSlices - 1 && before + slice_mass[slice] < mass; ++slice) {
    before += slice_mass[slice];
  }
  scratch.slice.clear();
  for (const Candidate& candidate : scratch.candidates) {
    if (slice_of(candidate) == slice) scratch.slice.push_back(candidate);
  }
  // Empty only where rounding kept all the sums below the mass.
  return scratch.slice.empty() ? Candidate{.logit = kMinusInfinity, .weight = 0, .id = 0}
                               : FindMass(scratch.slice, before, mass);
}

// Sets the candidates for top-k and top-p, and returns the mass that top-p keeps.
double CollectForMass(const LogitRow& row, const SamplingFilter& filter, float top_k_floor,
                      SamplingScratch& scratch) {
  if (top_k_floor > kMinusInfinity) {
    CollectFrom(row, top_k_floor, scratch.candidates);
    return filter.top_p * SetWeights(row, filter.inverse_temperature, scratch);
  }
  const double mass = filter.top_p * TotalWeight(row, filter.inverse_temperature, scratch);
  const int64_t num_blocks = NumLogitBlocks(row.vocab_size);
  scratch.values.assign(row.block_max, row.block_max + num_blocks);
  const float guess = NthLargestOf(scratch.values, std::min(kFirstGuess, num_blocks));
  CollectFrom(row, guess, scratch.candidates);
  if (SetWeights(row, filter.inverse_temperature, scratch) < mass) {
    scratch.candidates.clear();
    CollectFrom(row, kMinusInfinity, scratch.candidates);
    SetWeights(row, filter.inverse_temperature, scratch);
  }
  return mass;
}

}  // namespace

void SamplingScratch::Resize(int64_t vocab_size) {
  if (static_cast<int64_t>(edited.size()) >= vocab_size) return;
  block_max.resize(NumLogitBlocks(vocab_size));
  edited.resize(vocab_size);
  edited_block_max.resize(NumLogitBlocks(vocab_size));
  block_sum.resize(NumLogitBlocks(vocab_size));
  values.reserve(vocab_size);
  candidates.reserve(vocab_size);
  slice.reserve(vocab_size);
}

LogitRow MakeLogitRow(const float* logits, int64_t vocab_size, const float* block_max) {
  const float max = *std::max_element(block_max, block_max + NumLogitBlocks(vocab_size));
  return {logits, vocab_size, block_max, max};
}

int32_t ArgMax(const LogitRow& row) {
  const float* block =
      std::find(row.block_max, row.block_max + NumLogitBlocks(row.vocab_size), row.max);
  const float* first = row.logits + (block - row.block_max) * kLogitBlock;
  return static_cast<int32_t>(std::find(first, row.logits + row.vocab_size, row.max) - row.logits);
}

float KthLargest(const LogitRow& row, int64_t k, std::vector<float>& scratch) {
  const int64_t num_blocks = NumLogitBlocks(row.vocab_size);
  float floor = kMinusInfinity;
  if (k <= num_blocks) {
    // k blocks have a maximum of at least the k-th greatest maximum, so k logits do.
    scratch.assign(row.block_max, row.block_max + num_blocks);
    floor = NthLargestOf(scratch, k);
  }
  scratch.clear();
  ForEachFrom(row, floor, [&](int64_t id) { scratch.push_back(row.logits[id]); });
  return NthLargestOf(scratch, k);
}

void CollectFrom(const LogitRow& row, float floor, std::vector<Candidate>& candidates) {
  ForEachFrom(row, floor, [&](int64_t id) {
    candidates.push_back({row.logits[id], 0.0f, static_cast<int32_t>(id)});
  });
}

void CollectSupport(const LogitRow& row, const SamplingFilter& filter, SamplingScratch& scratch) {
  const bool uses_top_k = filter.top_k > 0 && filter.top_k < row.vocab_size;
  const float top_k_floor =
      uses_top_k ? KthLargest(row, filter.top_k, scratch.values) : kMinusInfinity;
  // The first token stays, whatever min_p.
  const float min_p_floor =
      filter.min_p > 0
          ? std::min(row.max, row.max + std::log(filter.min_p) / filter.inverse_temperature)
          : kMinusInfinity;
  scratch.candidates.clear();
  if (filter.top_p >= 1) {
    CollectFrom(row, std::max(top_k_floor, min_p_floor), scratch.candidates);
    SetWeights(row, filter.inverse_temperature, scratch);
    return;
  }
  const double mass = CollectForMass(row, filter, top_k_floor, scratch);
  const Candidate last = LastWithinMass(row, filter.inverse_temperature, mass, scratch);
  std::erase_if(scratch.candidates, [&](const Candidate& candidate) {
    return RanksBefore(last, candidate) || candidate.logit < min_p_floor;
  });
}

}  // namespace quire::cpu
