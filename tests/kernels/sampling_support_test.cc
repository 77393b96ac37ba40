// Which tokens the filters keep, exactly, against a full sort; and the generator's known answers.
#include "kernels/cpu/sampling/sampling_support.h"

#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/base/philox.h"
#include "tests/reference/sampler.h"

namespace quire::cpu {
namespace {

std::vector<int32_t> SupportOf(std::vector<float> logits, const SamplingRow& row) {
  SamplingScratch scratch;
  const auto vocab_size = static_cast<int64_t>(logits.size());
  scratch.Resize(vocab_size);
  CleanLogits(logits.data(), vocab_size, scratch.block_max.data());
  const LogitRow logit_row = MakeLogitRow(logits.data(), vocab_size, scratch.block_max.data());
  CollectSupport(logit_row, {1.0f / row.temperature, row.top_k, row.top_p, row.min_p}, scratch);
  std::vector<int32_t> ids;
  for (const Candidate& candidate : scratch.candidates) ids.push_back(candidate.id);
  return ids;
}

std::vector<int32_t> ExpectedSupport(const std::vector<float>& logits, const SamplingRow& row) {
  const auto probs = reference::Distribution({logits.begin(), logits.end()}, row);
  std::vector<int32_t> ids;
  for (size_t id = 0; id < probs.size(); ++id) {
    if (probs[id] > 0) ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// Random logits with a step of 0.25, so that ties abound; flat ones need the whole row.
std::vector<float> SteppedLogits(int64_t size, uint32_t seed, float spread) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = std::round(normal(rng) * 4) / 4;
  return logits;
}

TEST(SamplingSupportTest, MatchesAFullSort) {
  uint32_t seed = 0;
  for (int64_t size : {1, 10, 64, 1000, 40'000}) {
    for (float spread : {0.3f, 3.0f}) {
      const std::vector<float> logits = SteppedLogits(size, ++seed, spread);
      for (int32_t top_k : {0, 1, 3, 50, 5000}) {
        for (float top_p : {0.1f, 0.87f, 0.993f, 1.0f}) {
          for (float min_p : {0.0f, 0.03f}) {
            const SamplingRow row = {
                .temperature = 0.9f, .top_k = top_k, .top_p = top_p, .min_p = min_p};
            EXPECT_EQ(SupportOf(logits, row), ExpectedSupport(logits, row))
                << "size " << size << " spread " << spread << " k " << top_k << " p " << top_p
                << " min " << min_p;
          }
        }
      }
    }
  }
}

TEST(SamplingSupportTest, TopKKeepsTokensEqualToTheKth) {
  const std::vector<float> logits = {1, 3, 2, 2, 0, 2};
  EXPECT_EQ(SupportOf(logits, {.top_k = 2}), (std::vector<int32_t>{1, 2, 3, 5}));
}

TEST(SamplingSupportTest, TopPStopsWhereTheSumReachesP) {
  // Probabilities 1/2, 1/4, 1/8, 1/8: the sum is exactly 3/4 after two.
  const float half = std::log(0.5f);
  const std::vector<float> logits = {0, half, 2 * half, 2 * half};
  EXPECT_EQ(SupportOf(logits, {.top_p = 0.74f}), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(SupportOf(logits, {.top_p = 0.76f}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(SupportOf(logits, {.top_p = 0.0f}), (std::vector<int32_t>{0}));
}

TEST(SamplingSupportTest, MinPIsRelativeToTheFirst) {
  const std::vector<float> logits = {0, std::log(0.5f), std::log(0.2f)};
  EXPECT_EQ(SupportOf(logits, {.min_p = 0.4f}), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(SupportOf(logits, {.min_p = 1.0f}), (std::vector<int32_t>{0}));
}

// The vectors of the Random123 distribution.
TEST(PhiloxTest, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformsFillTheUnitInterval) {
  constexpr int kDraws = 10'000;
  double sum = 0;
  double least = 1;
  double greatest = 0;
  for (int64_t position = 0; position < kDraws; ++position) {
    const double u = UniformAt(77, position);
    sum += u;
    least = std::min(least, u);
    greatest = std::max(greatest, u);
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
  EXPECT_GE(least, 0.0);
  EXPECT_LT(least, 0.001);
  EXPECT_GT(greatest, 0.999);
  EXPECT_LT(greatest, 1.0);
}

}  // namespace
}  // namespace quire::cpu
