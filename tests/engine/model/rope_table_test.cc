#include "engine/model/config/rope_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace quire {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int kDim = 16;

RopeConfig Config(RopeType type, double theta, double factor, double original, int dim = kDim) {
  RopeConfig rope;
  rope.type = type;
  rope.theta = theta;
  rope.factor = factor;
  rope.original_max_position_embeddings = original;
  rope.rotary_dim = dim;
  return rope;
}

// transformers computes frequencies in float32.
void ExpectFrequencies(const RopeConfig& rope, const std::vector<double>& expected,
                       double attention_factor, int64_t max_model_len = 1) {
  const RopeFrequencies actual = ComputeRopeFrequencies(rope, max_model_len);
  ASSERT_EQ(actual.radians_per_token.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual.radians_per_token[i], expected[i], 1e-6 * expected[i]) << i;
  }
  EXPECT_NEAR(actual.attention_factor, attention_factor, 1e-12);
}

// The numbers below are transformers' for head_dim 16.
TEST(RopeFrequencies, Default) {
  ExpectFrequencies(
      Config(RopeType::kDefault, 10000, 1, 4096),
      {1.0, 0.31622776, 0.1, 0.031622779, 0.0099999998, 0.0031622779, 0.001, 0.00031622779}, 1.0);
}

TEST(RopeFrequencies, Linear) {
  ExpectFrequencies(Config(RopeType::kLinear, 10000, 4, 4096),
                    {0.25, 0.079056941, 0.025, 0.0079056947, 0.0024999999, 0.00079056947,
                     0.00025000001, 7.9056947e-05},
                    1.0);
}

TEST(RopeFrequencies, DynamicGrowsWithTheServedLength) {
  const RopeConfig rope = Config(RopeType::kDynamic, 10000, 4, 4096);
  ExpectFrequencies(
      rope, {1.0, 0.31622776, 0.1, 0.031622779, 0.0099999998, 0.0031622779, 0.001, 0.00031622779},
      1.0, 4096);
  ExpectFrequencies(rope,
                    {1, 0.25127375, 0.063138507, 0.015865048, 0.0039864704, 0.0010016954,
                     0.00025169979, 6.3245549e-05},
                    1.0, 8192);
}

TEST(RopeFrequencies, LongRopeTakesTheFactorsOfTheServedLength) {
  RopeConfig rope = Config(RopeType::kLongRope, 10000, 4, 2048);
  for (int i = 0; i < 8; ++i) {
    rope.short_factor.push_back(1 + 0.25 * i);
    rope.long_factor.push_back(2.0 + i);
  }
  ExpectFrequencies(rope,
                    {1, 0.25298223, 0.06666667, 0.018070158, 0.0049999999, 0.0014054568,
                     0.00039999999, 0.00011499191},
                    1.08711461300922, 2048);
  ExpectFrequencies(rope,
                    {0.5, 0.10540925, 0.025, 0.0063245557, 0.0016666667, 0.00045175396,
                     0.00012500001, 3.5136418e-05},
                    1.08711461300922, 2049);
}

// Half of the pairs, with the frequencies that they have among all of them.
TEST(RopeFrequencies, Proportional) {
  RopeConfig rope = Config(RopeType::kProportional, 10000, 1, 4096, kDim / 2);
  rope.pair_distance = kDim / 2;
  ExpectFrequencies(rope, {1.0, 0.31622776, 0.1, 0.031622779}, 1.0);
  rope.factor = 4;
  ExpectFrequencies(rope, {0.25, 0.079056941, 0.025, 0.0079056947}, 1.0);
}

TEST(RopeFrequencies, Llama3) {
  ExpectFrequencies(Config(RopeType::kLlama3, 500000, 8, 512),
                    {1.0, 0.19392276, 0.027344134, 0.00091158313, 0.00017677668, 3.4281024e-05,
                     6.6478697e-06, 1.2891732e-06},
                    1.0);
}

TEST(RopeFrequencies, Yarn) {
  ExpectFrequencies(Config(RopeType::kYarn, 10000, 4, 1024),
                    {1.0, 0.31622776, 0.081250004, 0.019764237, 0.004375, 0.00079056947,
                     0.00025000001, 7.9056947e-05},
                    1.138629436111989);
}

TEST(RopeFrequencies, YarnWithOptions) {
  RopeConfig rope = Config(RopeType::kYarn, 1000, 16, 256);
  rope.beta_fast = 16;
  rope.beta_slow = 2;
  rope.mscale = 1;
  rope.mscale_all_dim = 0.5;
  rope.truncate = false;
  ExpectFrequencies(rope,
                    {1.0, 0.42169651, 0.11431324, 0.01901298, 0.0019764237, 0.00083345093,
                     0.00035146333, 0.00014821086},
                    1.121751143713058);
}

// The ramp's two ends fall together.
TEST(RopeFrequencies, YarnWithoutRampAndWithAttentionFactor) {
  RopeConfig rope = Config(RopeType::kYarn, 10000, 4, 4);
  rope.attention_factor = 1.5;
  ExpectFrequencies(rope,
                    {1.0, 0.079056941, 0.025, 0.0079056947, 0.0024999999, 0.00079056947,
                     0.00025000001, 7.9056947e-05},
                    1.5);
}

// The definitions again, spelled with wavelengths and a dimension-by-dimension ramp.
double Llama3ByWavelength(const RopeConfig& rope, double frequency) {
  const double wavelength = 2 * kPi / frequency;
  const double original = rope.original_max_position_embeddings;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * (frequency / rope.factor) + smooth * frequency;
}

double YarnByRamp(const RopeConfig& rope, int dim, int i, double frequency) {
  const auto correction = [&](double rotations) {
    return dim * std::log(rope.original_max_position_embeddings / (rotations * 2 * kPi)) /
           (2 * std::log(rope.theta));
  };
  const double low = std::max(0.0, std::floor(correction(rope.beta_fast)));
  const double high = std::min(dim - 1.0, std::ceil(correction(rope.beta_slow)));
  double extrapolate = 1;
  if (i >= high) extrapolate = 0;
  if (i > low && i < high) extrapolate = 1 - (i - low) / (high - low);
  return frequency / rope.factor * (1 - extrapolate) + frequency * extrapolate;
}

TEST(RopeFrequencies, AgreeWithTheDefinitions) {
  for (int dim : {32, 64, 80, 128}) {
    for (double theta : {1e4, 5e5, 1e6}) {
      for (double original : {1024.0, 8192.0, 32768.0}) {
        for (double factor : {1.0, 2.5, 32.0}) {
          const RopeConfig llama3 = Config(RopeType::kLlama3, theta, factor, original, dim);
          const RopeConfig yarn = Config(RopeType::kYarn, theta, factor, original, dim);
          const auto llama3_actual = ComputeRopeFrequencies(llama3, 1).radians_per_token;
          const auto yarn_actual = ComputeRopeFrequencies(yarn, 1).radians_per_token;
          for (int i = 0; i < dim / 2; ++i) {
            const double frequency = 1 / std::pow(theta, 2.0 * i / dim);
            EXPECT_NEAR(llama3_actual[i] / Llama3ByWavelength(llama3, frequency), 1, 1e-12);
            EXPECT_NEAR(yarn_actual[i] / YarnByRamp(yarn, dim, i, frequency), 1, 1e-12);
          }
        }
      }
    }
  }
}

TEST(RopeStretchNote, SaysWhereTheLengthChangesShortTexts) {
  const RopeConfig longrope = Config(RopeType::kLongRope, 1e4, 32, 4096);
  EXPECT_EQ(RopeStretchNote(longrope, 4096), "");
  EXPECT_THAT(RopeStretchNote(longrope, 4097),
              testing::AllOf(testing::HasSubstr("4097 tokens goes beyond the 4096"),
                             testing::HasSubstr("longrope's long factors"),
                             testing::HasSubstr("--max-model-len 4096")));
  EXPECT_THAT(RopeStretchNote(Config(RopeType::kDynamic, 1e4, 2, 1024), 2048),
              testing::HasSubstr("dynamic rope scaling"));
  EXPECT_EQ(RopeStretchNote(Config(RopeType::kYarn, 1e4, 2, 1024), 2048), "");
}

TEST(FillRopeTable, CosinesThenSinesTimesTheAttentionFactor) {
  const RopeFrequencies frequencies = {.radians_per_token = {1.0, 0.25, 0.001},
                                       .attention_factor = 1.5};
  constexpr int64_t kPositions = 5000;
  std::vector<float> table(kPositions * 6, std::numeric_limits<float>::quiet_NaN());
  FillRopeTable(frequencies, kPositions, table.data());
  for (int64_t position = 0; position < kPositions; ++position) {
    for (int i = 0; i < 3; ++i) {
      const double angle = frequencies.radians_per_token[i] * position;
      ASSERT_EQ(table[position * 6 + i], static_cast<float>(1.5 * std::cos(angle)));
      ASSERT_EQ(table[position * 6 + 3 + i], static_cast<float>(1.5 * std::sin(angle)));
    }
  }
}

TEST(QueryScales, GrowWithEveryOriginalLength) {
  RopeConfig rope = Config(RopeType::kYarn, 10000, 4, 16);
  rope.query_scale_beta = 0.1;
  std::vector<float> scales(65);
  FillQueryScales(rope, 65, scales.data());
  for (int position : {0, 15}) EXPECT_EQ(scales[position], 1.0f);
  for (int position : {16, 31}) EXPECT_FLOAT_EQ(scales[position], 1 + 0.1 * std::log(2.0));
  EXPECT_FLOAT_EQ(scales[48], 1 + 0.1 * std::log(4.0));
  EXPECT_FLOAT_EQ(scales[64], 1 + 0.1 * std::log(5.0));
}

}  // namespace
}  // namespace quire
