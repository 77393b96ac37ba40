// Log probabilities that sampling reports: of sampled tokens, of the most likely ones and of
// targets.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/sampler_fixture.h"
#include "tests/reference/sampler.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SamplerLogprobsTest : public SamplerFixture {};

TEST_P(SamplerLogprobsTest, LogprobsAreOfTheUnmodifiedLogits) {
  for (int64_t vocab_size : {4, 65, 20'000}) {
    SCOPED_TRACE(vocab_size);
    std::vector<float> logits = RandomNormal(vocab_size, 10, 3.0f);
    logits[1] = logits[3] = 20.0f;  // a tie at the top
    const std::vector<double> expected = reference::LogSoftmax(logits);
    const std::vector<int32_t> ranking = reference::Ranking({logits.begin(), logits.end()});
    const std::vector<LogitBias> bias = {{1, -kInfinity}, {2, 100.0f}};
    for (SamplingRow row : {SamplingRow{.row = 0, .temperature = 0, .num_logprobs = 20},
                            {.row = 0, .temperature = 0, .num_logprobs = 3, .num_bias = 2},
                            {.row = 0, .num_logprobs = 0},
                            {.row = 0, .temperature = 3.0f, .num_logprobs = 5}}) {
      const SampleResult result = Run(logits, {row}, bias);
      const int32_t id = result.ids[0];
      EXPECT_NEAR(result.logprobs[0], expected[id], 1e-5);
      EXPECT_EQ(ranking[result.ranks[0] - 1], id);
      for (int64_t i = 0; i < std::min<int64_t>(row.num_logprobs, vocab_size); ++i) {
        EXPECT_EQ(result.top_ids[i], ranking[i]);
        EXPECT_NEAR(result.top_logprobs[i], expected[ranking[i]], 1e-5);
      }
      if (row.num_logprobs == 0) {
        EXPECT_EQ(result.top_ids[0], -7);
      }
    }
  }
}

TEST_P(SamplerLogprobsTest, NoLogprobsUnlessAskedFor) {
  const SampleResult result = Run(RandomNormal(50, 11), {{.row = 0, .temperature = 0}});
  EXPECT_TRUE(std::isnan(result.logprobs[0]));
  EXPECT_EQ(result.ranks[0], -7);
}

TEST_P(SamplerLogprobsTest, ScoringRowsReportTheirTarget) {
  const std::vector<float> logits = RandomNormal(300, 12, 2.0f);
  const std::vector<double> expected = reference::LogSoftmax(logits);
  const std::vector<int32_t> ranking = reference::Ranking({logits.begin(), logits.end()});
  // Penalties and filters do not apply, and nothing is counted as generated.
  const SampleResult result =
      Run(logits,
          {{.row = 1, .target = 77, .top_k = 1, .repetition_penalty = 2.0f, .num_logprobs = 4}});
  EXPECT_EQ(result.ids[0], 77);
  EXPECT_NEAR(result.logprobs[0], expected[77], 1e-5);
  EXPECT_EQ(ranking[result.ranks[0] - 1], 77);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(result.top_ids[i], ranking[i]);
  EXPECT_EQ(result.last_tokens, std::vector<int32_t>(kMaxRows, -7));
  EXPECT_EQ(result.counts, std::vector<int32_t>(kMaxRows * 300, 0));
}

INSTANTIATE_TEST_SUITE_P(Targets, SamplerLogprobsTest, testing::ValuesIn(KernelTargets()),
                         TargetName);

}  // namespace
}  // namespace quire
