// Sampling: greedy, penalties, the supports of top-k, top-p and min-p, the distribution of draws,
// log probabilities, and that rows share nothing.
#include "tests/reference/sampler.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "tests/kernels/sampler_fixture.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class SamplerTest : public SamplerFixture {
 protected:
  // Chi-square over tokens that are expected at least five times, against the 99.99% point of a
  // normal approximation; and no token outside the support. Deterministic: the seed is fixed.
  void ExpectDistribution(const std::vector<float>& logits, const SamplingRow& row) {
    constexpr int64_t kDraws = 4000;
    const std::vector<double> probs = reference::Distribution({logits.begin(), logits.end()}, row);
    std::vector<int64_t> seen(logits.size());
    for (int32_t id : Draws(logits, row, kDraws)) ++seen[id];
    double chi_square = 0;
    int64_t num_cells = 0;
    double rest_expected = 0;
    int64_t rest_seen = 0;
    for (size_t id = 0; id < probs.size(); ++id) {
      if (probs[id] == 0) {
        ASSERT_EQ(seen[id], 0) << "token " << id << " is outside the support";
      } else if (probs[id] * kDraws < 5) {
        rest_expected += probs[id] * kDraws;
        rest_seen += seen[id];
      } else {
        const double expected = probs[id] * kDraws;
        chi_square += (seen[id] - expected) * (seen[id] - expected) / expected;
        ++num_cells;
      }
    }
    if (rest_expected >= 5) {
      chi_square += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
      ++num_cells;
    }
    const double freedom = static_cast<double>(std::max<int64_t>(1, num_cells - 1));
    EXPECT_LT(chi_square, freedom + 4.5 * std::sqrt(2 * freedom) + 8) << num_cells << " cells";
  }

  void ExpectDrawsInvert(const std::vector<float>& logits, const SamplingRow& row,
                         int64_t num_draws) {
    ExpectInverses(reference::Distribution({logits.begin(), logits.end()}, row), row.seed,
                   Draws(logits, row, num_draws));
  }
};

// Rounded as bfloat16 does it: most values occur many times.
std::vector<float> Quantised(std::vector<float> logits) {
  return RoundTo(DType::kBF16, std::move(logits));
}

// A few tokens far above the others, some of them equal.
std::vector<float> Peaked(int64_t vocab_size, uint32_t seed) {
  std::vector<float> logits = RandomNormal(vocab_size, seed, 2.5f);
  for (int64_t i = 0; i < std::min<int64_t>(20, vocab_size); ++i) {
    logits[i * 7919 % vocab_size] = 20.0f - static_cast<float>(i % 13);
  }
  return logits;
}

SamplingRow Row(float temperature, uint64_t seed = 1234) {
  return {.row = 0, .temperature = temperature, .seed = seed};
}

TEST_P(SamplerTest, GreedyTakesTheLowestIdOfTheGreatest) {
  for (int64_t vocab_size : {1, 5, 64, 65, 1000, 32'003}) {
    std::vector<float> logits = RandomNormal(vocab_size, 1);
    const int64_t best = vocab_size / 3;
    logits[best] = logits[vocab_size - 1] = 50.0f;
    const SampleResult result = Run(logits, {Row(0)});
    EXPECT_EQ(result.ids[0], best);
    EXPECT_EQ(result.last_tokens[0], best);
  }
}

TEST_P(SamplerTest, PaddingRowsDoNothing) {
  const SampleResult result = Run(RandomNormal(200, 1), {SamplingRow{}, {.row = 2}});
  EXPECT_EQ(result.ids[0], -1);
  EXPECT_EQ(result.last_tokens, (std::vector<int32_t>{-7, -7, result.ids[1], -7}));
}

TEST_P(SamplerTest, InfiniteLogitsStillGiveAToken) {
  const std::vector<float> all_banned(70, -kInfinity);
  std::vector<float> one_finite(70, -kInfinity), one_infinite(70, 5.0f);
  one_finite[66] = -3.0f;
  one_infinite[67] = kInfinity;
  for (SamplingRow row : {Row(0), Row(1), SamplingRow{.row = 0, .top_p = 0.5f}}) {
    row.num_logprobs = 2;
    EXPECT_EQ(Run(all_banned, {row}).ids[0], 0);
    EXPECT_EQ(Run(all_banned, {row}).logprobs[0], -kInfinity);
    EXPECT_EQ(Run(one_finite, {row}).ids[0], 66);
    EXPECT_EQ(Run(one_finite, {row}).logprobs[0], 0.0f);
    EXPECT_EQ(Run(one_infinite, {row}).ids[0], 67);
  }
}

// Wherever a NaN is: a row says so, whatever it is asked for, and its neighbours have their tokens.
TEST_P(SamplerTest, ANanMarksItsRowAlone) {
  constexpr int64_t kVocabSize = 9'001;  // several of a GPU's slices, and a part of one
  const std::vector<float> healthy = RandomNormal(kVocabSize, 3);
  const int32_t best = Run(healthy, {Row(0)}).ids[0];
  for (const int64_t place :
       {int64_t{0}, int64_t{63}, int64_t{4095}, int64_t{4096}, kVocabSize - 1, int64_t{-1}}) {
    std::vector<float> broken = healthy;
    if (place < 0) std::fill(broken.begin(), broken.end(), kNan);
    if (place >= 0) broken[place] = place % 2 == 0 ? kNan : -kNan;
    std::vector<float> logits = healthy;
    logits.insert(logits.end(), broken.begin(), broken.end());
    logits.insert(logits.end(), healthy.begin(), healthy.end());
    for (SamplingRow row :
         {Row(0), Row(1), SamplingRow{.top_p = 0.5f}, SamplingRow{.top_k = 5},
          SamplingRow{.min_p = 0.1f}, SamplingRow{.repetition_penalty = 2.0f},
          SamplingRow{.num_bias = 1}, SamplingRow{.target = 5, .num_logprobs = 2}}) {
      for (const int16_t num_logprobs : {-1, 2}) {
        row.row = row.target >= 0 ? -1 : 1;
        if (row.target < 0) row.num_logprobs = num_logprobs;
        SamplingRow last = Row(0);
        last.row = 2;
        const SampleResult result = Run(logits, {Row(0), row, last}, {{7, -kInfinity}});
        EXPECT_EQ(result.ids, (std::vector<int32_t>{best, kBrokenLogitsId, best}))
            << "NaN at " << place;
        EXPECT_EQ(result.last_tokens,
                  (std::vector<int32_t>{best, row.target >= 0 ? -7 : 0, best, -7}));
        EXPECT_EQ(std::count(result.counts.begin(), result.counts.end(), 0),
                  static_cast<int64_t>(result.counts.size()));
      }
    }
  }
}

// A bias is the request's own: what it makes NaN cannot be drawn, and nothing is broken.
TEST_P(SamplerTest, WhatABiasMakesNanIsNotDrawn) {
  std::vector<float> logits(70, 1.0f);
  logits[3] = -kInfinity;
  logits[9] = 2.0f;
  const SamplingRow row = {.row = 0, .temperature = 0, .num_bias = 1};
  EXPECT_EQ(Run(logits, {row}, {{3, kInfinity}}).ids[0], 9);
}

TEST_P(SamplerTest, PenaltiesMatchReferenceAndCount) {
  const int64_t vocab_size = 150;
  std::vector<int32_t> counts(kMaxRows * vocab_size);
  std::mt19937 rng(5);
  for (int32_t trial = 0; trial < 40; ++trial) {
    const std::vector<float> logits = RandomNormal(vocab_size, 100 + trial, 2.0f);
    for (int32_t& count : counts) {
      count = static_cast<int32_t>(rng() % 4) | (rng() % 3 == 0 ? kPromptTokenBit : 0);
    }
    SamplingRow row = {.row = 2, .temperature = 0};
    if (trial % 2 == 0) row.repetition_penalty = trial % 4 == 0 ? 3.0f : 0.5f;
    if (trial % 3 == 0) row.presence_penalty = 2.0f;
    if (trial % 5 < 2) row.frequency_penalty = 1.5f;
    const std::vector<int32_t> row_counts(counts.begin() + 2 * vocab_size,
                                          counts.begin() + 3 * vocab_size);
    const std::vector<double> edited = UsesPenalties(row)
                                           ? reference::EditLogits(logits, row, row_counts, {})
                                           : std::vector<double>(logits.begin(), logits.end());
    const SampleResult result = Run(logits, {row}, {}, counts);
    ASSERT_EQ(result.ids[0], reference::Ranking(edited)[0]) << "trial " << trial;
    std::vector<int32_t> expected_counts = counts;
    if (UsesPenalties(row)) ++expected_counts[2 * vocab_size + result.ids[0]];
    ASSERT_EQ(result.counts, expected_counts);
  }
}

TEST_P(SamplerTest, BiasAddsAndBans) {
  std::vector<float> logits(100, 0.0f);
  logits[10] = 5.0f;
  const std::vector<LogitBias> bias = {{10, -kInfinity}, {20, 1.0f}, {30, 9.0f}};
  SamplingRow row = Row(0);
  row.num_bias = 2;
  EXPECT_EQ(Run(logits, {row}, bias).ids[0], 20);
  row.bias_begin = 2;
  row.num_bias = 1;
  EXPECT_EQ(Run(logits, {row}, bias).ids[0], 30);
  row = Row(1);
  row.num_bias = 1;
  const std::vector<int32_t> draws = Draws(logits, row, 500, bias);
  EXPECT_EQ(std::count(draws.begin(), draws.end(), 10), 0);
}

TEST_P(SamplerTest, DrawsFollowTheDistribution) {
  const std::vector<SamplingRow> settings = {
      {.row = 0},
      {.row = 0, .temperature = 0.5f},
      {.row = 0, .temperature = 2.0f},
      {.row = 0, .top_k = 1},
      {.row = 0, .top_k = 7},
      {.row = 0, .top_p = 0.0f},
      {.row = 0, .top_p = 0.5f},
      {.row = 0, .top_p = 0.95f},
      {.row = 0, .min_p = 0.1f},
      {.row = 0, .temperature = 0.8f, .top_k = 30, .top_p = 0.8f, .min_p = 0.05f},
      {.row = 0, .temperature = 1.5f, .top_k = 100, .top_p = 0.99f}};
  uint64_t seed = 99;
  for (int64_t vocab_size : {3, 50, 333}) {
    const std::vector<float> logits = RandomNormal(vocab_size, 7, 1.5f);
    for (SamplingRow row : settings) {
      SCOPED_TRACE(testing::Message()
                   << "vocabulary " << vocab_size << " t " << row.temperature << " k " << row.top_k
                   << " p " << row.top_p << " min " << row.min_p);
      row.seed = ++seed;
      ExpectDistribution(logits, row);
    }
  }
}

TEST_P(SamplerTest, DrawsDependOnSeedAndPositionOnly) {
  const std::vector<float> logits = RandomNormal(500, 8);
  const std::vector<int32_t> draws = Draws(logits, Row(1, 42), 200);
  EXPECT_EQ(draws, Draws(logits, Row(1, 42), 200));
  EXPECT_NE(draws, Draws(logits, Row(1, 43), 200));
  EXPECT_GT(std::set<int32_t>(draws.begin(), draws.end()).size(), 50u);
  // Alone, and with any number of threads.
  OpenWithThreads(1);
  for (int64_t position : {0, 17, 199}) {
    SamplingRow row = Row(1, 42);
    row.position = position;
    EXPECT_EQ(Run(logits, {row}).ids[0], draws[position]);
  }
}

TEST_P(SamplerTest, LargeVocabularies) {
  const int64_t vocab_size = 262'144;
  const std::vector<float> logits = RandomNormal(vocab_size, 9, 3.0f);
  const std::vector<double> exact(logits.begin(), logits.end());
  for (SamplingRow row : {SamplingRow{.row = 1, .top_k = 40},
                          {.row = 1, .top_k = 10'000},
                          {.row = 1, .top_p = 0.3f},
                          {.row = 1, .top_p = 0.98f},
                          {.row = 1}}) {
    const std::vector<double> probs = reference::Distribution(exact, row);
    row.seed = 11;
    for (int32_t id : Draws(logits, row, 8)) EXPECT_GT(probs[id], 0.0);
  }
}

TEST_P(SamplerTest, DrawsInvertTheDistribution) {
  const std::vector<SamplingRow> settings = {
      {.row = 0, .temperature = 0.7f},
      {.row = 0, .top_k = 50, .top_p = 0.9f},
      {.row = 0, .top_k = 3000, .top_p = 0.95f},
      {.row = 0, .temperature = 0.6f, .top_p = 0.9f},
      {.row = 0, .top_p = 0.3f},
      {.row = 0, .top_p = 0.05f, .min_p = 0.7f},
      {.row = 0, .temperature = 3.0f, .top_p = 0.999f},
      {.row = 0, .min_p = 0.02f},
      {.row = 0, .temperature = 1.3f, .top_p = 0.8f, .min_p = 0.01f}};
  for (int64_t vocab_size : {1, 127, 4097, 50'001, 151'936}) {
    const std::vector<std::vector<float>> rows = {
        RandomNormal(vocab_size, 20, 1.0f), RandomNormal(vocab_size, 21, 4.0f),
        Peaked(vocab_size, 22), Quantised(RandomNormal(vocab_size, 23, 2.0f)),
        std::vector<float>(vocab_size, -3.0f)};
    for (size_t shape = 0; shape < rows.size(); ++shape) {
      for (SamplingRow row : settings) {
        SCOPED_TRACE(testing::Message()
                     << "vocabulary " << vocab_size << " shape " << shape << " k " << row.top_k
                     << " p " << row.top_p << " min " << row.min_p);
        row.seed = 77 + shape;
        ExpectDrawsInvert(rows[shape], row, 6);
      }
    }
  }
}

TEST_P(SamplerTest, TheGreatestVocabularyIsDrawnFrom) {
  const std::vector<float> logits = RandomNormal(kMaxVocabSize, 24, 2.0f);
  for (SamplingRow row : {SamplingRow{.row = 0}, SamplingRow{.row = 0, .top_k = 50, .top_p = 0.9f},
                          SamplingRow{.row = 0, .top_p = 0.9f}}) {
    ExpectDrawsInvert(logits, row, 2);
  }
}

// Some tokens that top-p keeps, for their bias, above a great many; and one that a penalty takes
// out.
TEST_P(SamplerTest, TopPOfManySeesBiasAndPenalties) {
  const int64_t vocab_size = 50'001;
  const std::set<int32_t> kept = {7, 25'000, 50'000};
  const int32_t penalised = 30'000;
  std::vector<float> logits = RandomNormal(vocab_size, 31, 3.0f);
  std::vector<LogitBias> bias;
  for (const int32_t id : kept) {
    logits[id] = 0;
    bias.push_back({.token = id, .bias = 18});
  }
  logits[penalised] = 60;
  std::vector<int32_t> counts(kMaxRows * vocab_size);
  for (int64_t row = 0; row < kMaxRows; ++row) {
    counts[row * vocab_size + penalised] = kPromptTokenBit;
  }
  std::set<int32_t> drawn;
  for (int64_t position = 0; position < 40; position += kMaxRows) {
    std::vector<float> all;
    std::vector<SamplingRow> rows;
    for (int32_t i = 0; i < kMaxRows; ++i) {
      rows.push_back({.row = i,
                      .top_p = 0.9f,
                      .repetition_penalty = 20,
                      .num_bias = static_cast<int16_t>(bias.size()),
                      .seed = 5,
                      .position = position + i});
      all.insert(all.end(), logits.begin(), logits.end());
    }
    for (const int32_t id : Run(all, rows, bias, counts).ids) drawn.insert(id);
  }
  EXPECT_EQ(drawn, kept);
}

// Rows of every kind in one call, so that rows are not on 16 bytes, and each row in a call of its
// own have the same bits.
TEST_P(SamplerTest, RowsAreBatchInvariant) {
  for (int64_t vocab_size : {130, 9001, 20'000}) {
    SCOPED_TRACE(vocab_size);
    const std::vector<LogitBias> bias = {{7, -kInfinity}, {100, 2.0f}, {128, 3.0f}};
    const std::vector<SamplingRow> rows = {
        {.row = 0, .temperature = 0},
        {.row = 1, .num_logprobs = 20},
        {},
        {.row = 2, .top_k = 50, .top_p = 0.9f, .repetition_penalty = 1.3f, .num_logprobs = 3},
        {.target = 5, .num_logprobs = 0},
        {.row = 3, .top_p = 0.99f, .num_logprobs = 1, .num_bias = 3},
        {.row = 0, .temperature = 0, .num_logprobs = 5, .num_bias = 2, .bias_begin = 1},
        {.target = 100, .num_logprobs = 20},
        {.row = 1, .temperature = 2.0f, .top_k = 5000, .min_p = 0.01f}};
    const auto num_rows = static_cast<int64_t>(rows.size());
    const std::vector<float> logits = RandomNormal(num_rows * vocab_size, 31, 2.0f);
    std::vector<int32_t> counts(kMaxRows * vocab_size);
    for (size_t i = 0; i < counts.size(); i += 3) counts[i] = 1 + static_cast<int32_t>(i % 2);
    const SampleResult together = Run(logits, rows, bias, counts);
    for (int64_t i = 0; i < num_rows; ++i) {
      SCOPED_TRACE(testing::Message() << "row " << i);
      const auto begin = logits.begin() + i * vocab_size;
      const SampleResult alone =
          Run(std::vector<float>(begin, begin + vocab_size), {rows[i]}, bias, counts);
      EXPECT_EQ(together.ids[i], alone.ids[0]);
      if (rows[i].num_logprobs < 0) continue;
      EXPECT_EQ(together.logprobs[i], alone.logprobs[0]);
      EXPECT_EQ(together.ranks[i], alone.ranks[0]);
      for (int64_t top = 0; top < rows[i].num_logprobs; ++top) {
        EXPECT_EQ(together.top_ids[i * kMaxLogprobs + top], alone.top_ids[top]);
        EXPECT_EQ(together.top_logprobs[i * kMaxLogprobs + top], alone.top_logprobs[top]);
      }
    }
  }
}

TEST_P(SamplerTest, AnyNumberOfRows) {
  constexpr int64_t kNumRows = 40'000;
  constexpr int64_t kVocabSize = 3;
  std::vector<float> logits(kNumRows * kVocabSize, 0.0f);
  std::vector<SamplingRow> rows(kNumRows, {.row = 0, .temperature = 0, .num_logprobs = 1});
  std::vector<int32_t> expected;
  for (int64_t i = 0; i < kNumRows; ++i) {
    expected.push_back(static_cast<int32_t>(i * 7 % kVocabSize));
    logits[i * kVocabSize + expected.back()] = 9.0f;
  }
  const SampleResult result = Run(logits, rows);
  EXPECT_EQ(result.ids, expected);
  EXPECT_EQ(result.ranks, std::vector<int32_t>(kNumRows, 1));
  EXPECT_EQ(result.top_ids[(kNumRows - 1) * kMaxLogprobs], expected.back());
}

// A captured call, replayed with new rows at the same address.
TEST_P(SamplerTest, ReplaysWithNewRows) {
  const int64_t vocab_size = 5000;
  const DeviceTensor logits =
      UploadTensor(RandomNormal(2 * vocab_size, 41, 2.0f), DType::kF32, {2, vocab_size});
  const DeviceBuffer rows = Upload(std::vector<SamplingRow>(2));
  const DeviceBuffer counts = Upload(std::vector<int32_t>(2 * vocab_size));
  const DeviceBuffer results = Upload(std::vector<int32_t>(8 + 4 * kMaxLogprobs));
  auto* ints = results.as<int32_t>();
  const SampleArgs args = {.logits = logits.tensor,
                           .rows = rows.as<SamplingRow>(),
                           .bias = nullptr,
                           .token_masks = nullptr,
                           .token_counts = counts.as<int32_t>(),
                           .row_last_token = ints,
                           .sampled_ids = ints + 2,
                           .sampled_logprobs = reinterpret_cast<float*>(ints + 4),
                           .sampled_ranks = ints + 6,
                           .top_ids = ints + 8,
                           .top_logprobs = reinterpret_cast<float*>(ints + 8 + 2 * kMaxLogprobs)};
  stream().BeginCapture();
  ops().Sample(stream(), args);
  const auto graph = stream().EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (SamplingRow row : {Row(0), Row(1), SamplingRow{.row = 0, .top_k = 9, .top_p = 0.9f},
                          SamplingRow{.row = 0, .temperature = 4.0f, .top_p = 0.99f}}) {
    SamplingRow other = row;
    other.row = row.row + 1;
    other.seed = 5;
    Overwrite(rows, std::vector<SamplingRow>{row, other});
    ops().Sample(stream(), args);
    const std::vector<int32_t> expected = Download<int32_t>(ints, 4);
    Overwrite(results, std::vector<int32_t>(4, -7));
    stream().Launch(**graph);
    EXPECT_EQ(Download<int32_t>(ints, 4), expected);
  }
}

TEST_P(SamplerTest, EqualLogitsRankById) {
  const int64_t vocab_size = 20'000;
  std::vector<float> logits(vocab_size, 1.0f);
  logits[15'000] = 2.0f;
  const SampleResult result = Run(logits, {
                                              {.row = 0, .temperature = 0, .num_logprobs = 20},
                                          });
  EXPECT_EQ(result.top_ids[0], 15'000);
  for (int32_t i = 1; i < kMaxLogprobs; ++i) EXPECT_EQ(result.top_ids[i], i - 1);
  const SampleResult scored = Run(logits, {{.target = 9999, .num_logprobs = 0}});
  EXPECT_EQ(scored.ranks[0], 10'001);
  // Half of the mass is half of the ids; all that equal the k-th stay.
  for (int32_t top_k : {0, 10}) {
    const SamplingRow half = {.row = 0, .top_k = top_k, .top_p = 0.5f, .seed = 3};
    for (int32_t id : Draws(logits, half, 50)) EXPECT_TRUE(id <= 10'000 || id == 15'000) << id;
  }
}

TEST_P(SamplerTest, ResetTokenCounts) {
  const int64_t vocab_size = 10;
  std::vector<int32_t> counts(kMaxRows * vocab_size, 3);
  const DeviceBuffer counts_device = Upload(counts);
  const DeviceBuffer tokens = Upload(std::vector<int32_t>{4, 4, 9, 9, 9, 0});
  ops().ResetTokenCounts(stream(), {.row = 1,
                                    .tokens = tokens.as<int32_t>(),
                                    .num_tokens = 6,
                                    .num_prompt_tokens = 3,
                                    .token_counts = counts_device.as<int32_t>(),
                                    .vocab_size = vocab_size});
  std::fill_n(counts.begin() + vocab_size, vocab_size, 0);
  counts[vocab_size + 4] = kPromptTokenBit;
  counts[vocab_size + 9] = kPromptTokenBit + 2;
  counts[vocab_size + 0] = 1;
  EXPECT_EQ(Download<int32_t>(counts_device.data(), counts.size()), counts);
}

INSTANTIATE_TEST_SUITE_P(Targets, SamplerTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
