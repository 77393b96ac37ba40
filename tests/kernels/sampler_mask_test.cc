// Masks of allowed tokens: nothing else is drawn or counted, what is drawn follows the distribution
// over the mask, bans give way to it, and all that a row reports is as if it had none.
#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kernels/sampler_fixture.h"
#include "tests/reference/sampler.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Mask = std::vector<uint32_t>;  // [MaskWords(vocab_size)]

Mask MaskOf(int64_t vocab_size, const std::vector<int64_t>& tokens) {
  Mask mask(MaskWords(vocab_size));
  for (const int64_t token : tokens) mask[token / 32] |= uint32_t{1} << (token % 32);
  return mask;
}

// Beyond the vocabulary every bit is set, too: these bits must not count.
Mask FullMask(int64_t vocab_size) { return Mask(MaskWords(vocab_size), ~uint32_t{0}); }

// Each token with this probability, and one that is always there.
Mask RandomMask(int64_t vocab_size, double probability, uint32_t seed) {
  std::mt19937 rng(seed);
  std::bernoulli_distribution is_allowed(probability);
  std::vector<int64_t> tokens = {static_cast<int64_t>(rng() % vocab_size)};
  for (int64_t token = 0; token < vocab_size; ++token) {
    if (is_allowed(rng)) tokens.push_back(token);
  }
  return MaskOf(vocab_size, tokens);
}

// Long runs of allowed and of banned tokens, whole segments and slices of a GPU among them.
Mask MaskOfRuns(int64_t vocab_size) {
  std::vector<int64_t> tokens = {vocab_size / 2};
  for (int64_t token = 0; token < vocab_size; ++token) {
    if (token / 5000 % 2 == 1 || token % 700 < 70) tokens.push_back(token);
  }
  return MaskOf(vocab_size, tokens);
}

struct NamedMask {
  const char* name;
  Mask mask;
};

std::vector<NamedMask> Masks(int64_t vocab_size) {
  return {{"one token", MaskOf(vocab_size, {vocab_size / 3})},
          {"the last token", MaskOf(vocab_size, {vocab_size - 1})},
          {"the first and the last", MaskOf(vocab_size, {0, vocab_size - 1})},
          {"one in 500", RandomMask(vocab_size, 0.002, 1)},
          {"half", RandomMask(vocab_size, 0.5, 2)},
          {"nearly all", RandomMask(vocab_size, 0.99, 3)},
          {"runs", MaskOfRuns(vocab_size)},
          {"all", FullMask(vocab_size)}};
}

// One of each kind; the rows have mask 0.
std::vector<SamplingRow> Settings() {
  return {{.row = 0, .temperature = 0, .mask = 0},
          {.row = 0, .temperature = 0.7f, .mask = 0},
          {.row = 0, .top_k = 50, .top_p = 0.9f, .mask = 0},
          {.row = 0, .top_k = 20, .mask = 0},
          {.row = 0, .top_k = 3000, .top_p = 0.95f, .mask = 0},
          {.row = 0, .top_p = 0.3f, .mask = 0},
          {.row = 0, .temperature = 3.0f, .top_p = 0.999f, .mask = 0},
          {.row = 0, .min_p = 0.02f, .mask = 0},
          {.row = 0, .temperature = 1.3f, .top_p = 0.8f, .min_p = 0.01f, .mask = 0}};
}

std::string Describe(const SamplingRow& row) {
  return absl::StrCat("t ", row.temperature, " k ", row.top_k, " p ", row.top_p, " min ",
                      row.min_p);
}

class SamplerMaskTest : public SamplerFixture {
 protected:
  // Draws are from the distribution over what the mask leaves of `edited`.
  void ExpectDraws(const std::vector<float>& logits, const std::vector<double>& edited,
                   const SamplingRow& row, const Mask& mask, const std::vector<int32_t>& draws) {
    for (const int32_t id : draws) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, static_cast<int32_t>(logits.size()));
      ASSERT_TRUE(reference::Allows(mask, id)) << "token " << id;
    }
    const std::vector<double> left = reference::MaskLogits(logits, edited, mask);
    if (row.temperature > 0) {
      ExpectInverses(reference::Distribution(left, row), row.seed, draws);
    } else {
      for (const int32_t id : draws) ASSERT_EQ(id, reference::Ranking(left)[0]);
    }
  }
};

TEST_P(SamplerMaskTest, DrawsInvertTheDistributionOverTheMask) {
  for (const int64_t vocab_size : {1, 31, 33, 127, 4097, 30'001}) {
    const std::vector<std::vector<float>> shapes = {
        RandomNormal(vocab_size, 21, 4.0f), RoundTo(DType::kBF16, RandomNormal(vocab_size, 23)),
        std::vector<float>(vocab_size, -3.0f)};
    for (size_t shape = 0; shape < shapes.size(); ++shape) {
      const std::vector<double> exact(shapes[shape].begin(), shapes[shape].end());
      for (const auto& [name, mask] : Masks(vocab_size)) {
        const std::vector<SamplingRow> settings = Settings();
        for (size_t i = 0; i < settings.size(); ++i) {
          SamplingRow row = settings[i];
          if (vocab_size > 10'000 && (i + shape) % shapes.size() != 0) continue;  // it takes long
          SCOPED_TRACE(testing::Message() << "vocabulary " << vocab_size << " shape " << shape
                                          << ", " << name << ", " << Describe(row));
          row.seed = 77 + shape;
          ExpectDraws(shapes[shape], exact, row, mask, Draws(shapes[shape], row, 4, {}, mask));
        }
      }
    }
  }
}

// The mask's tokens are far below the others, or far above all except infinite ones.
TEST_P(SamplerMaskTest, TokensOutsideTheMaskHaveNoWeight) {
  const int64_t vocab_size = 20'000;
  const Mask mask = RandomMask(vocab_size, 0.01, 4);
  for (const float shift : {-200.0f, -20.0f, 20.0f}) {
    std::vector<float> logits = RandomNormal(vocab_size, 5, 1.0f);
    for (int64_t id = 0; id < vocab_size; ++id) {
      if (reference::Allows(mask, id)) {
        logits[id] += shift;
      } else if (id % 1000 == 1) {
        logits[id] = kInfinity;
      }
    }
    const std::vector<double> exact(logits.begin(), logits.end());
    for (SamplingRow row : Settings()) {
      SCOPED_TRACE(testing::Message() << "shift " << shift << ", " << Describe(row));
      row.seed = 6;
      ExpectDraws(logits, exact, row, mask, Draws(logits, row, 4, {}, mask));
    }
  }
}

// Penalties and bias change the mask's tokens before filters see them, and only the token that is
// drawn is counted.
TEST_P(SamplerMaskTest, PenaltiesAndBiasWithinTheMask) {
  const int64_t vocab_size = 9'001;
  std::mt19937 rng(8);
  for (const double probability : {0.002, 0.1, 0.9}) {
    const Mask mask = RandomMask(vocab_size, probability, 9);
    const std::vector<float> logits = RandomNormal(vocab_size, 10, 2.0f);
    std::vector<int32_t> counts(kMaxRows * vocab_size);
    for (int32_t& count : counts) {
      count = static_cast<int32_t>(rng() % 4) | (rng() % 3 == 0 ? kPromptTokenBit : 0);
    }
    std::vector<LogitBias> bias;
    for (int32_t token = 0; token < vocab_size; token += 9) {
      bias.push_back({token, token % 2 == 0 ? -kInfinity : 3.0f});
    }
    for (SamplingRow row : Settings()) {
      SCOPED_TRACE(testing::Message() << probability << ", " << Describe(row));
      row.row = 2;
      row.repetition_penalty = 1.3f;
      row.presence_penalty = 0.5f;
      row.frequency_penalty = 0.2f;
      row.num_bias = static_cast<int16_t>(bias.size());
      row.seed = 12;
      const std::vector<int32_t> row_counts(counts.begin() + 2 * vocab_size,
                                            counts.begin() + 3 * vocab_size);
      const SampleResult result = Run(logits, {row}, bias, counts, mask);
      ExpectDraws(logits, reference::EditLogits(logits, row, row_counts, bias), row, mask,
                  result.ids);
      std::vector<int32_t> expected = counts;
      ++expected[2 * vocab_size + result.ids[0]];
      EXPECT_EQ(result.counts, expected);
      EXPECT_EQ(result.last_tokens, (std::vector<int32_t>{-7, -7, result.ids[0], -7}));
    }
  }
}

TEST_P(SamplerMaskTest, BansGiveWayToTheMask) {
  const int64_t vocab_size = 9'001;
  std::vector<float> logits = RandomNormal(vocab_size, 13);
  logits[40] = logits[8'000] = 5.0f;
  logits[9'000] = 4.0f;
  const Mask mask = MaskOf(vocab_size, {3, 40, 5'000, 8'000, 9'000});
  const std::vector<LogitBias> bias = {{3, -kInfinity},
                                       {40, -kInfinity},
                                       {5'000, -kInfinity},
                                       {8'000, -kInfinity},
                                       {9'000, -kInfinity}};
  std::vector<float> banned_by_model(vocab_size, 2.0f);
  for (const LogitBias& ban : bias) banned_by_model[ban.token] = -kInfinity;
  for (SamplingRow row : Settings()) {
    SCOPED_TRACE(Describe(row));
    for (const float penalty : {1.0f, 1.5f}) {
      row.repetition_penalty = penalty;
      row.num_bias = 5;  // nothing is left: the greatest of the mask, the lowest id
      EXPECT_EQ(Run(logits, {row}, bias, {}, mask).ids[0], 40);
      row.num_bias = 4;  // the last token is left
      EXPECT_EQ(Run(logits, {row}, bias, {}, mask).ids[0], 9'000);
    }
    row.num_bias = 5;
    row.num_logprobs = 2;  // of a token that the row's settings ban
    const SampleResult result = Run(logits, {row}, bias, {}, mask);
    EXPECT_EQ(result.ids[0], 40);
    EXPECT_NEAR(result.logprobs[0], reference::LogSoftmax(logits)[40], 1e-5);
    EXPECT_EQ(result.top_ids[0], 40);
    row.num_bias = 0;
    row.num_logprobs = -1;
    EXPECT_EQ(Run(banned_by_model, {row}, {}, {}, mask).ids[0], 3);
    EXPECT_EQ(Run(std::vector<float>(vocab_size, -kInfinity), {row}, {}, {}, mask).ids[0], 3);
  }
}

// The same bits, with whatever else a row asks for.
TEST_P(SamplerMaskTest, AFullMaskEqualsNone) {
  for (const int64_t vocab_size : {33, 130, 9'001, 50'000}) {
    SCOPED_TRACE(vocab_size);
    const std::vector<float> logits = RandomNormal(vocab_size, 14, 2.0f);
    const std::vector<LogitBias> bias = {{7, -kInfinity}, {20, 2.0f}, {32, 3.0f}};
    std::vector<int32_t> counts(kMaxRows * vocab_size);
    for (size_t i = 0; i < counts.size(); i += 3) counts[i] = 1 + static_cast<int32_t>(i % 2);
    for (SamplingRow row : Settings()) {
      for (const int16_t num_logprobs : {-1, 5}) {
        row.num_logprobs = num_logprobs;
        SCOPED_TRACE(Describe(row));
        SamplingRow unmasked = row;
        unmasked.mask = -1;
        EXPECT_EQ(Draws(logits, row, 8, {}, FullMask(vocab_size)), Draws(logits, unmasked, 8));
        row.num_bias = unmasked.num_bias = 3;
        row.repetition_penalty = unmasked.repetition_penalty = 1.2f;
        const SampleResult with = Run(logits, {row}, bias, counts, FullMask(vocab_size));
        const SampleResult without = Run(logits, {unmasked}, bias, counts);
        EXPECT_EQ(with.ids, without.ids);
        EXPECT_EQ(with.counts, without.counts);
        EXPECT_EQ(with.ranks, without.ranks);
        EXPECT_EQ(with.top_ids, without.top_ids);
        row.num_bias = 0;
        row.repetition_penalty = 1;
      }
    }
  }
}

TEST_P(SamplerMaskTest, LogprobsAreThoseOfTheUntouchedLogits) {
  const int64_t vocab_size = 20'000;
  const std::vector<float> logits = RandomNormal(vocab_size, 15, 3.0f);
  const std::vector<double> expected = reference::LogSoftmax(logits);
  const std::vector<int32_t> ranking = reference::Ranking({logits.begin(), logits.end()});
  for (const auto& [name, mask] : Masks(vocab_size)) {
    for (SamplingRow row : Settings()) {
      SCOPED_TRACE(testing::Message() << name << ", " << Describe(row));
      row.num_logprobs = 6;
      const SampleResult result = Run(logits, {row}, {}, {}, mask);
      const int32_t id = result.ids[0];
      EXPECT_TRUE(reference::Allows(mask, id));
      EXPECT_NEAR(result.logprobs[0], expected[id], 1e-5);
      EXPECT_EQ(ranking[result.ranks[0] - 1], id);
      for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(result.top_ids[i], ranking[i]);
        EXPECT_NEAR(result.top_logprobs[i], expected[ranking[i]], 1e-5);
      }
    }
  }
}

TEST_P(SamplerMaskTest, ScoringRowsHaveNoMask) {
  const std::vector<float> logits = RandomNormal(300, 16, 2.0f);
  const SampleResult result =
      Run(logits, {{.target = 77, .num_logprobs = 4, .mask = 0}}, {}, {}, MaskOf(300, {5}));
  const std::vector<int32_t> ranking = reference::Ranking({logits.begin(), logits.end()});
  EXPECT_EQ(result.ids[0], 77);
  EXPECT_NEAR(result.logprobs[0], reference::LogSoftmax(logits)[77], 1e-5);
  EXPECT_EQ(ranking[result.ranks[0] - 1], 77);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(result.top_ids[i], ranking[i]);
}

TEST_P(SamplerMaskTest, ANanOutsideTheMaskBreaksItsRow) {
  const int64_t vocab_size = 9'001;
  const Mask mask = MaskOf(vocab_size, {5, 6'000});
  for (const int64_t place : {0, 5, 4'095, 9'000}) {
    std::vector<float> logits = RandomNormal(vocab_size, 17);
    logits[place] = place % 2 == 0 ? kNan : -kNan;
    for (SamplingRow row : Settings()) {
      for (const int16_t num_logprobs : {-1, 2}) {
        row.num_logprobs = num_logprobs;
        const SampleResult result = Run(logits, {row}, {}, {}, mask);
        EXPECT_EQ(result.ids[0], kBrokenLogitsId) << place << ", " << Describe(row);
        EXPECT_EQ(result.last_tokens[0], 0);
      }
    }
  }
}

// Rows of every kind in one call, each with a mask of its own or none, and each by itself.
TEST_P(SamplerMaskTest, RowsAreBatchInvariant) {
  for (const int64_t vocab_size : {130, 9'001, 20'000}) {
    SCOPED_TRACE(vocab_size);
    std::vector<SamplingRow> rows;
    for (SamplingRow row : Settings()) {
      rows.push_back(row);
      rows.push_back({});
      row.mask = -1;
      rows.push_back(row);
    }
    const auto num_rows = static_cast<int64_t>(rows.size());
    const std::vector<float> logits = RandomNormal(num_rows * vocab_size, 18, 2.0f);
    std::vector<uint32_t> masks;
    std::vector<Mask> mask_of_row(num_rows);
    int32_t num_masks = 0;
    for (int64_t i = 0; i < num_rows; ++i) {
      if (rows[i].mask < 0) continue;
      rows[i].mask = num_masks++;
      mask_of_row[i] = RandomMask(vocab_size, i % 2 == 0 ? 0.3 : 0.01, static_cast<uint32_t>(i));
      masks.insert(masks.end(), mask_of_row[i].begin(), mask_of_row[i].end());
    }
    const SampleResult together = Run(logits, rows, {}, {}, masks);
    for (int64_t i = 0; i < num_rows; ++i) {
      SCOPED_TRACE(testing::Message() << "row " << i << ", " << Describe(rows[i]));
      const auto begin = logits.begin() + i * vocab_size;
      SamplingRow row = rows[i];
      if (row.mask >= 0) row.mask = 0;
      const SampleResult alone =
          Run(std::vector<float>(begin, begin + vocab_size), {row}, {}, {}, mask_of_row[i]);
      EXPECT_EQ(together.ids[i], alone.ids[0]);
      if (row.mask >= 0) {
        EXPECT_TRUE(reference::Allows(mask_of_row[i], alone.ids[0]));
      }
    }
  }
}

// More rows than a GPU takes at once: masks are counted from the first row of the call.
TEST_P(SamplerMaskTest, AnyNumberOfRows) {
  constexpr int32_t kNumRows = 40'000;
  constexpr int64_t kVocabSize = 3;
  std::vector<SamplingRow> rows(kNumRows, {.row = 0, .temperature = 0});
  std::vector<uint32_t> masks;
  std::vector<int32_t> expected;
  for (int32_t i = 0; i < kNumRows; ++i) {
    rows[i].mask = i;
    expected.push_back(i * 7 % static_cast<int32_t>(kVocabSize));
    masks.push_back(uint32_t{1} << expected.back());
  }
  EXPECT_EQ(Run(RandomNormal(kNumRows * kVocabSize, 19), rows, {}, {}, masks).ids, expected);
}

INSTANTIATE_TEST_SUITE_P(Targets, SamplerMaskTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
