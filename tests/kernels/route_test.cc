// Route against plain loops in double, on every backend.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels/kernel_test.h"
#include "tests/reference/experts.h"

namespace quire {
namespace {

struct RouteCase {
  std::string name;
  RouterRule rule;
  bool has_correction = false;
  bool has_expert_scales = false;
};

std::vector<RouteCase> RouteCases() {
  using enum RouterScore;
  const auto two_best = GroupScore::kTwoBestSum;
  return {
      {"qwen3", {.num_experts = 128, .top_k = 8, .renormalise = true}},
      {"qwen2", {.num_experts = 60, .top_k = 4}},
      {"mixtral", {.num_experts = 8, .top_k = 2, .renormalise = true}},
      {"one_expert", {.num_experts = 1, .top_k = 1}},
      {"one_choice", {.num_experts = 33, .top_k = 1}},
      {"all", {.num_experts = 32, .top_k = 32, .renormalise = true}},
      {"many", {.num_experts = 1024, .top_k = 32, .scale = 2.5f}},
      {"gemma4", {.num_experts = 128, .top_k = 8, .renormalise = true}, false, true},
      {"softmax_correction", {.num_experts = 40, .top_k = 3}, true},
      {"deepseek2",
       {.num_experts = 160, .top_k = 6, .scale = 16.0f, .num_groups = 8, .top_groups = 3}},
      {"deepseek3",
       {.num_experts = 256,
        .top_k = 8,
        .score = kSigmoid,
        .renormalise = true,
        .scale = 2.5f,
        .num_groups = 8,
        .top_groups = 4,
        .group_score = two_best},
       true},
      {"glm4",
       {.num_experts = 128,
        .top_k = 8,
        .score = kSigmoid,
        .renormalise = true,
        .group_score = two_best},
       true},
      {"sigmoid", {.num_experts = 20, .top_k = 5, .score = kSigmoid}},
      {"groups_of_one",
       {.num_experts = 16,
        .top_k = 4,
        .score = kSigmoid,
        .num_groups = 16,
        .top_groups = 7,
        .group_score = two_best},
       true,
       true},
  };
}

// So many that equal ones are frequent, and others are told apart in float32.
std::vector<float> LogitsOfAGrid(int64_t size, uint32_t seed) {
  std::vector<float> logits = RandomNormal(size, seed, 2);
  for (float& logit : logits) logit = std::round(logit * 16) / 16;
  return logits;
}

class RouteTest : public KernelTest {
 protected:
  // The results for rows of `stride` logits; weights as floats.
  struct Result {
    std::vector<int32_t> experts, pairs, offsets;
    std::vector<float> weights;
  };
  Result Run(const RouteCase& c, const std::vector<float>& logits, int64_t num_tokens,
             int64_t stride, const std::vector<float>& correction,
             const std::vector<float>& expert_scales) {
    const RouterRule& rule = c.rule;
    const int64_t num_pairs = num_tokens * rule.top_k;
    const DeviceBuffer device_logits = Upload(logits);
    const DeviceTensor device_correction =
        UploadTensor(correction, DType::kF32, {rule.num_experts});
    const DeviceTensor device_scales = UploadTensor(expert_scales, DType::kF32, {rule.num_experts});
    const DeviceBuffer experts = Upload(std::vector<int32_t>(num_pairs, -1));
    const DeviceBuffer weights = Upload(std::vector<float>(num_pairs, -1));
    const DeviceBuffer pairs = Upload(std::vector<int32_t>(num_pairs, -1));
    const DeviceBuffer offsets = Upload(std::vector<int32_t>(rule.num_experts + 1, -1));
    ops().Route(stream(),
                {.logits = Tensor(device_logits.data(), DType::kF32, {num_tokens, rule.num_experts})
                               .WithRowStride(stride),
                 .rule = rule,
                 .correction = correction.empty() ? Tensor() : device_correction.tensor,
                 .expert_scales = expert_scales.empty() ? Tensor() : device_scales.tensor,
                 .counts = counts_,
                 .slots = slots_,
                 .out = {.experts = Tensor(experts.data(), DType::kI32, {num_tokens, rule.top_k}),
                         .weights = Tensor(weights.data(), DType::kF32, {num_tokens, rule.top_k}),
                         .pairs = Tensor(pairs.data(), DType::kI32, {num_pairs}),
                         .offsets = Tensor(offsets.data(), DType::kI32, {rule.num_experts + 1})}});
    return {.experts = Download<int32_t>(experts.data(), num_pairs),
            .pairs = Download<int32_t>(pairs.data(), num_pairs),
            .offsets = Download<int32_t>(offsets.data(), rule.num_experts + 1),
            .weights = Download<float>(weights.data(), num_pairs)};
  }

  Tensor counts_;  // of Run
  const int64_t* slots_ = nullptr;

  void ExpectSorted(const Result& result, const RouterRule& rule) {
    reference::Routed routed = {
        .experts = result.experts, .weights = {}, .pairs = {}, .offsets = {}};
    reference::SortPairs(rule.num_experts, &routed);
    ASSERT_EQ(result.pairs, routed.pairs);
    ASSERT_EQ(result.offsets, routed.offsets);
  }

  // In the order of their keys, which float32 may tell apart the other way round where they are
  // next to each other; equal ones in the order of their indices.
  void ExpectChosen(const RouterRule& rule, const std::vector<double>& keys,
                    const std::vector<int32_t>& experts) {
    const std::vector<int32_t> expected = reference::BestOf(keys, rule.top_k);
    ASSERT_EQ(std::set<int32_t>(experts.begin(), experts.end()).size(), experts.size());
    for (int i = 0; i < rule.top_k; ++i) {
      ASSERT_TRUE(experts[i] >= 0 && experts[i] < rule.num_experts) << experts[i];
      if (experts[i] == expected[i]) continue;
      const double key = keys[experts[i]], expected_key = keys[expected[i]];
      ASSERT_NE(key, expected_key) << experts[i] << " instead of " << expected[i];
      ASSERT_NEAR(key, expected_key, 1e-6) << experts[i] << " instead of " << expected[i];
    }
  }

  void ExpectMatchesReference(const RouteCase& c, int64_t num_tokens, int64_t extra_columns = 0) {
    SCOPED_TRACE(testing::Message() << c.name << " " << num_tokens << " tokens");
    const RouterRule& rule = c.rule;
    const int64_t stride = rule.num_experts + extra_columns;
    const std::vector<float> logits = LogitsOfAGrid(num_tokens * stride, 1);
    std::vector<float> correction, expert_scales;
    if (c.has_correction) correction = RandomNormal(rule.num_experts, 2, 0.2f);
    if (c.has_expert_scales) expert_scales = RandomNormal(rule.num_experts, 3);
    const Result result = Run(c, logits, num_tokens, stride, correction, expert_scales);
    for (int64_t t = 0; t < num_tokens; ++t) {
      const auto row = logits.begin() + t * stride;
      const std::vector<float> of_token(row, row + rule.num_experts);
      const auto first = result.experts.begin() + t * rule.top_k;
      const std::vector<int32_t> experts(first, first + rule.top_k);
      ExpectChosen(rule, reference::KeysOf(rule, of_token, correction), experts);
      if (HasFatalFailure()) return;
      const auto weights = reference::WeightsOf(rule, of_token, experts, expert_scales);
      for (int i = 0; i < rule.top_k; ++i) {
        ASSERT_NEAR(result.weights[t * rule.top_k + i], weights[i], 1e-5 * std::abs(weights[i]))
            << "token " << t << " choice " << i;
      }
    }
    ExpectSorted(result, rule);
  }
};

TEST_P(RouteTest, MatchesPlainLoops) {
  for (const RouteCase& c : RouteCases()) {
    for (int64_t num_tokens : {1, 2, 7, 64, 300}) {
      ExpectMatchesReference(c, num_tokens);
      if (HasFatalFailure()) return;
    }
  }
}

// Those of several calls add up; tokens that pad a step do not count.
TEST_P(RouteTest, CountsWhatTokensChoose) {
  for (const int64_t num_tokens : {1, 5, 64, 300}) {
    SCOPED_TRACE(testing::Message() << num_tokens << " tokens");
    const RouteCase& c = RouteCases()[0];
    const RouterRule& rule = c.rule;
    std::vector<int64_t> slots(num_tokens), expected(rule.num_experts, 7);
    for (int64_t t = 0; t < num_tokens; ++t) slots[t] = t % 3 == 1 ? -1 : t;
    const DeviceBuffer device_slots = Upload(slots);
    const DeviceBuffer counts = Upload(expected);
    counts_ = Tensor(counts.data(), DType::kI64, {rule.num_experts});
    for (const int64_t* const of : {device_slots.as<int64_t>(), static_cast<int64_t*>(nullptr)}) {
      slots_ = of;
      const Result result = Run(c, LogitsOfAGrid(num_tokens * rule.num_experts, 5), num_tokens,
                                rule.num_experts, {}, {});
      for (int64_t i = 0; i < num_tokens * rule.top_k; ++i) {
        if (of == nullptr || slots[i / rule.top_k] >= 0) ++expected[result.experts[i]];
      }
      ASSERT_EQ(Download<int64_t>(counts.data(), rule.num_experts), expected);
    }
  }
}

TEST_P(RouteTest, ALargeStep) { ExpectMatchesReference(RouteCases()[0], 4096); }

TEST_P(RouteTest, LogitsMayBeColumnsOfWiderRows) { ExpectMatchesReference(RouteCases()[0], 9, 5); }

TEST_P(RouteTest, OfEqualScoresTheLowestIndexIsChosen) {
  for (const RouteCase& c : RouteCases()) {
    if (c.has_correction) continue;
    SCOPED_TRACE(c.name);
    const RouterRule& rule = c.rule;
    std::vector<float> logits(2 * rule.num_experts, 0.5f);
    logits.back() = 1;  // the best of the second token
    const Result result = Run(c, logits, 2, rule.num_experts, {}, {});
    for (int i = 0; i < rule.top_k; ++i) {
      EXPECT_EQ(result.experts[i], i);
      EXPECT_EQ(result.experts[rule.top_k + i], i == 0 ? rule.num_experts - 1 : i - 1);
    }
    ExpectSorted(result, rule);
  }
}

TEST_P(RouteTest, AllTokensMayChooseTheSameExperts) {
  const RouteCase c = {"same", {.num_experts = 16, .top_k = 3, .renormalise = true}};
  constexpr int64_t kTokens = 100;
  std::vector<float> logits(kTokens * 16);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int i = 0; i < 3; ++i) logits[t * 16 + 4 * i + 2] = static_cast<float>(3 + i);
  }
  const Result result = Run(c, logits, kTokens, 16, {}, {});
  for (int64_t i = 0; i < 3 * kTokens; ++i) ASSERT_EQ(result.experts[i], 10 - i % 3 * 4);
  ExpectSorted(result, c.rule);
}

// Nothing is chosen twice or is no expert, and the token's weights tell.
TEST_P(RouteTest, LogitsThatAreNotNumbersAreTheLowest) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    const RouteCase c = {"nan",
                         {.num_experts = 12, .top_k = 4, .score = score, .renormalise = true}};
    const RouterRule& rule = c.rule;
    std::vector<float> logits = LogitsOfAGrid(4 * 12, 5);
    std::fill_n(logits.begin(), 12, NAN);       // all
    std::fill_n(logits.begin() + 12, 10, NAN);  // more than are not chosen
    logits[24 + 3] = NAN;                       // one
    const Result result = Run(c, logits, 4, 12, {}, {});
    for (int64_t t = 0; t < 4; ++t) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(score) << " token " << t);
      const std::vector<float> of_token(logits.begin() + t * 12, logits.begin() + (t + 1) * 12);
      const std::vector<int32_t> experts(result.experts.begin() + t * 4,
                                         result.experts.begin() + (t + 1) * 4);
      ExpectChosen(rule, reference::KeysOf(rule, of_token, {}), experts);
      for (int i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(result.weights[t * 4 + i]), t < 3);
    }
    ExpectSorted(result, rule);
  }
}

// Sigmoids that all vanish leave weights of 0, not NaN.
TEST_P(RouteTest, VanishingSigmoidsHaveNoWeight) {
  const RouteCase c = {
      "vanishing",
      {.num_experts = 8, .top_k = 2, .score = RouterScore::kSigmoid, .renormalise = true}};
  const Result result = Run(c, std::vector<float>(8, -200.0f), 1, 8, {}, {});
  EXPECT_EQ(result.experts, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(result.weights, (std::vector<float>{0, 0}));
}

INSTANTIATE_TEST_SUITE_P(Targets, RouteTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
