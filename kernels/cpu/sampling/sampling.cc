#include "kernels/cpu/sampling/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/types/span.h"
#include "kernels/base/check.h"
#include "kernels/base/philox.h"
#include "kernels/cpu/sampling/logit_blocks.h"
#include "kernels/cpu/sampling/sampling_support.h"

namespace quire::cpu {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Waking a thread takes about as long as finding the maximum of this many logits.
constexpr int64_t kLogitsPerRange = 64 * 1024;

// Penalties and bias, in Hugging Face's order; the frequencies are of generated tokens only.
void EditLogits(const SamplingRow& row, const SampleArgs& args, int64_t vocab_size, float* logits) {
  if (UsesPenalties(row)) {
    const int32_t* counts = args.token_counts + row.row * vocab_size;
    for (int64_t id = 0; id < vocab_size; ++id) {
      if (counts[id] == 0) continue;
      float& logit = logits[id];
      logit = logit < 0 ? logit * row.repetition_penalty : logit / row.repetition_penalty;
      const int32_t num_generated = counts[id] & ~kPromptTokenBit;
      if (num_generated > 0) {
        logit -= row.frequency_penalty * static_cast<float>(num_generated) + row.presence_penalty;
      }
    }
  }
  for (int32_t i = row.bias_begin; i < BiasEnd(row); ++i) {
    CHECK(args.bias[i].token >= 0 && args.bias[i].token < vocab_size);
    logits[args.bias[i].token] += args.bias[i].bias;
  }
}

// The row's mask, [MaskWords(vocab_size)].
const uint32_t* MaskOf(const SamplingRow& row, const SampleArgs& args, int64_t vocab_size) {
  CHECK(args.token_masks != nullptr);
  return args.token_masks + row.mask * MaskWords(vocab_size);
}

// -infinity for the tokens outside the mask.
void MaskLogits(const uint32_t* mask, int64_t vocab_size, float* logits) {
  for (int64_t begin = 0; begin < vocab_size; begin += 32) {
    const uint32_t allowed = mask[begin / 32];
    if (allowed == ~uint32_t{0}) continue;
    const int64_t size = std::min<int64_t>(32, vocab_size - begin);
    if (allowed == 0) {
      std::fill_n(logits + begin, size, kMinusInfinity);
      continue;
    }
    for (int64_t i = 0; i < size; ++i) {
      logits[begin + i] = (allowed >> i & 1) != 0 ? logits[begin + i] : kMinusInfinity;
    }
  }
}

// The lowest id of the mask's greatest logit.
int32_t ArgMaxOfMask(const uint32_t* mask, const LogitRow& row) {
  int64_t best = -1;
  for (int64_t word = 0; word < MaskWords(row.vocab_size); ++word) {
    for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      const int64_t id = word * 32 + std::countr_zero(bits);
      if (id >= row.vocab_size) break;
      if (best < 0 || row.logits[id] > row.logits[best]) best = id;
    }
  }
  return static_cast<int32_t>(std::max<int64_t>(best, 0));
}

// The first of `items` at which the sum of their weights passes `target`; the last one of positive
// weight where rounding kept the sum below it.
template <typename Item, typename WeightOf>
int64_t FindInSum(absl::Span<const Item> items, double target, WeightOf weight_of) {
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const double weight = weight_of(items[i]);
    if (weight > 0) last = i;
    sum += weight;
    if (sum > target) return static_cast<int64_t>(i);
  }
  return static_cast<int64_t>(last);
}

int32_t DrawFromAll(const LogitRow& row, float inverse_temperature, double uniform,
                    SamplingScratch& scratch) {
  SumLogitWeights(row.logits, row.vocab_size, row.max, inverse_temperature,
                  scratch.block_sum.data());
  const absl::Span<const float> sums(scratch.block_sum.data(), NumLogitBlocks(row.vocab_size));
  const auto itself = [](float weight) { return weight; };
  const double target = uniform * std::accumulate(sums.begin(), sums.end(), 0.0);
  const int64_t block = FindInSum(sums, target, itself);
  const double before = std::accumulate(sums.begin(), sums.begin() + block, 0.0);

  const int64_t begin = block * kLogitBlock;
  float weights[kLogitBlock];
  const int64_t size = std::min(kLogitBlock, row.vocab_size - begin);
  LogitWeights(row.logits + begin, size, row.max, inverse_temperature, weights);
  return static_cast<int32_t>(
      begin + FindInSum(absl::Span<const float>(weights, size), target - before, itself));
}

int32_t Draw(const LogitRow& logits, const SamplingRow& row, SamplingScratch& scratch) {
  if (logits.max == kMinusInfinity) return 0;
  // Below this temperature the distribution is a point; the bound keeps 0 * infinity out.
  constexpr float kMaxInverseTemperature = 1e30f;
  const float inverse_temperature = std::min(1.0f / row.temperature, kMaxInverseTemperature);
  const double uniform = UniformAt(row.seed, row.position);
  if (row.top_k <= 0 && row.top_p >= 1 && row.min_p <= 0) {
    return DrawFromAll(logits, inverse_temperature, uniform, scratch);
  }
  CollectSupport(logits, {inverse_temperature, row.top_k, row.top_p, row.min_p}, scratch);
  const absl::Span<const Candidate> candidates = scratch.candidates;
  const double total = std::accumulate(
      candidates.begin(), candidates.end(), 0.0,
      [](double sum, const Candidate& candidate) { return sum + candidate.weight; });
  const auto weight_of = [](const Candidate& candidate) { return candidate.weight; };
  return candidates[FindInSum(candidates, uniform * total, weight_of)].id;
}

// Log-softmax of the unmodified logits of one row.
class LogProbs {
 public:
  LogProbs(const LogitRow& row, SamplingScratch& scratch) : row_(row) {
    SumLogitWeights(row.logits, row.vocab_size, row.max, 1.0f, scratch.block_sum.data());
    const auto begin = scratch.block_sum.begin();
    log_sum_ = std::log(std::accumulate(begin, begin + NumLogitBlocks(row.vocab_size), 0.0));
  }

  // -infinity for a logit of -infinity, even where all are.
  float Of(int32_t id) const {
    const float logit = row_.logits[id];
    if (logit == kMinusInfinity) return kMinusInfinity;
    return static_cast<float>(static_cast<double>(logit) - row_.max - log_sum_);
  }

  int32_t RankOf(int32_t id) const {
    const float logit = row_.logits[id];
    const int64_t greater = CountGreater(row_.logits, row_.vocab_size, logit);
    return static_cast<int32_t>(1 + greater + std::count(row_.logits, row_.logits + id, logit));
  }

  // The `num` most likely tokens.
  void Top(int64_t num, SamplingScratch& scratch, int32_t* ids, float* logprobs) const {
    if (num == 0) return;
    std::vector<Candidate>& candidates = scratch.candidates;
    candidates.clear();
    CollectFrom(row_, KthLargest(row_, num, scratch.values), candidates);
    std::partial_sort(candidates.begin(), candidates.begin() + num, candidates.end(), RanksBefore);
    for (int64_t i = 0; i < num; ++i) {
      ids[i] = candidates[i].id;
      logprobs[i] = Of(candidates[i].id);
    }
  }

 private:
  const LogitRow row_;
  double log_sum_;
};

// The id that the row's settings choose.
int32_t Choose(const SamplingRow& row, const SampleArgs& args, const LogitRow& raw,
               SamplingScratch& scratch) {
  const bool is_masked = row.mask >= 0;
  if (!UsesPenalties(row) && row.num_bias == 0 && !is_masked) {
    return row.temperature > 0 ? Draw(raw, row, scratch) : ArgMax(raw);
  }
  float* logits = scratch.edited.data();
  std::copy_n(raw.logits, raw.vocab_size, logits);
  EditLogits(row, args, raw.vocab_size, logits);
  if (is_masked) MaskLogits(MaskOf(row, args, raw.vocab_size), raw.vocab_size, logits);
  // A logit that is NaN only now became NaN by penalties or bias: that is not the model's fault.
  (void)CleanLogits(logits, raw.vocab_size, scratch.edited_block_max.data());
  const LogitRow edited = MakeLogitRow(logits, raw.vocab_size, scratch.edited_block_max.data());
  if (is_masked && edited.max == kMinusInfinity) {
    return ArgMaxOfMask(MaskOf(row, args, raw.vocab_size), raw);
  }
  return row.temperature > 0 ? Draw(edited, row, scratch) : ArgMax(edited);
}

void SampleRow(const SampleArgs& args, int64_t index) {
  const SamplingRow& row = args.rows[index];
  const bool is_scored = row.target >= 0;
  if (!is_scored && row.row < 0) {
    args.sampled_ids[index] = -1;
    return;
  }
  const int64_t vocab_size = args.logits.dim(1);
  CHECK_LT(row.target, vocab_size);
  thread_local SamplingScratch scratch;
  scratch.Resize(vocab_size);
  float* logits = args.logits.as<float>() + index * args.logits.row_stride();
  if (CleanLogits(logits, vocab_size, scratch.block_max.data())) {
    args.sampled_ids[index] = kBrokenLogitsId;
    if (!is_scored) args.row_last_token[row.row] = 0;
    return;
  }
  const LogitRow raw = MakeLogitRow(logits, vocab_size, scratch.block_max.data());

  const int32_t id = is_scored ? row.target : Choose(row, args, raw, scratch);
  args.sampled_ids[index] = id;
  if (!is_scored) {
    args.row_last_token[row.row] = id;
    if (UsesPenalties(row)) ++args.token_counts[row.row * vocab_size + id];
  }
  if (row.num_logprobs >= 0) {
    CHECK_LE(row.num_logprobs, kMaxLogprobs);
    const LogProbs logprobs(raw, scratch);
    args.sampled_logprobs[index] = logprobs.Of(id);
    args.sampled_ranks[index] = logprobs.RankOf(id);
    logprobs.Top(std::min<int64_t>(row.num_logprobs, vocab_size), scratch,
                 args.top_ids + index * kMaxLogprobs, args.top_logprobs + index * kMaxLogprobs);
  }
}

}  // namespace

void ResetTokenCounts(const ResetTokenCountsArgs& args, ThreadPool&) {
  int32_t* counts = args.token_counts + args.row * args.vocab_size;
  std::fill_n(counts, args.vocab_size, 0);
  for (int64_t i = 0; i < args.num_tokens; ++i) {
    int32_t& count = counts[args.tokens[i]];
    count = i < args.num_prompt_tokens ? count | kPromptTokenBit : count + 1;
  }
}

void Sample(const SampleArgs& args, ThreadPool& pool) {
  const int64_t rows_per_range = std::max<int64_t>(1, kLogitsPerRange / args.logits.dim(1));
  pool.ParallelFor(args.logits.dim(0), rows_per_range, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) SampleRow(args, row);
  });
}

}  // namespace quire::cpu
