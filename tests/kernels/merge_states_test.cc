// Merging partial attentions, against arithmetic in double.
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kTokens = 3;
constexpr int64_t kHeads = 5;
constexpr int64_t kDim = 72;
constexpr int64_t kRows = kTokens * kHeads;

using MergeStateTest = KernelTest;

// Partial attentions of `kRows` rows: values [kRows, kDim] and log-sum-exps [kRows] of each state.
struct States {
  std::vector<std::vector<float>> out, lse;
};

States MakeStates(int num_states, DType dtype) {
  States states;
  for (int i = 0; i < num_states; ++i) {
    states.out.push_back(RoundTo(dtype, RandomNormal(kRows * kDim, 10 + i)));
    states.lse.push_back(RandomNormal(kRows, 20 + i, 3.0f));
  }
  states.lse[0][3] = -kInfinity;                                   // one state without keys
  for (std::vector<float>& lse : states.lse) lse[7] = -kInfinity;  // none has any
  // What a state without keys holds must not count.
  for (int64_t d = 0; d < kDim; ++d) {
    states.out[0][3 * kDim + d] = std::numeric_limits<float>::quiet_NaN();
  }
  return states;
}

void ExpectMerged(const States& states, const std::vector<float>& out,
                  const std::vector<float>& lse, DType dtype) {
  for (int64_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (const auto& one : states.lse) sum += std::exp2(static_cast<double>(one[row]));
    if (sum == 0) {
      EXPECT_EQ(lse[row], -kInfinity);
    } else {
      EXPECT_NEAR(lse[row], std::log2(sum), 1e-5);
    }
    for (int64_t i = row * kDim; i < (row + 1) * kDim; ++i) {
      double expected = 0;
      for (size_t s = 0; s < states.out.size() && sum > 0; ++s) {
        const double weight = std::exp2(static_cast<double>(states.lse[s][row])) / sum;
        if (weight > 0) expected += weight * states.out[s][i];
      }
      ASSERT_NEAR(out[i], expected, 1e-5 + OutputRounding(dtype) * std::abs(expected))
          << "row " << row;
    }
  }
}

TEST_P(MergeStateTest, TwoStatesInPlace) {
  for (const DType dtype : activation_dtypes()) {
    SCOPED_TRACE(DTypeName(dtype));
    const States states = MakeStates(2, dtype);
    const DeviceTensor out_a = UploadTensor(states.out[0], dtype, {kTokens, kHeads, kDim});
    const DeviceTensor out_b = UploadTensor(states.out[1], dtype, {kTokens, kHeads, kDim});
    const DeviceBuffer lse_a = Upload(states.lse[0]);
    const DeviceBuffer lse_b = Upload(states.lse[1]);
    ops().MergeState(stream(), {.out_a = out_a.tensor,
                                .lse_a = lse_a.as<float>(),
                                .out_b = out_b.tensor,
                                .lse_b = lse_b.as<float>(),
                                .out = out_a.tensor,
                                .lse = lse_a.as<float>()});
    ExpectMerged(states, DownloadTensor(out_a.tensor), Download<float>(lse_a.data(), kRows), dtype);
  }
}

TEST_P(MergeStateTest, AnyNumberOfStates) {
  for (const DType dtype : activation_dtypes()) {
    for (const int num_states : {1, 2, 5}) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << num_states);
      const States states = MakeStates(num_states, dtype);
      std::vector<float> stacked, stacked_lse;  // token by token, in it state by state
      for (int64_t token = 0; token < kTokens; ++token) {
        for (int s = 0; s < num_states; ++s) {
          const auto out = states.out[s].begin() + token * kHeads * kDim;
          stacked.insert(stacked.end(), out, out + kHeads * kDim);
          const auto lse = states.lse[s].begin() + token * kHeads;
          stacked_lse.insert(stacked_lse.end(), lse, lse + kHeads);
        }
      }
      const DeviceTensor in = UploadTensor(stacked, dtype, {kTokens, num_states * kHeads, kDim});
      const DeviceBuffer in_lse = Upload(stacked_lse);
      const DeviceTensor out =
          UploadTensor(std::vector<float>(kRows * kDim), dtype, {kTokens, kHeads, kDim});
      const DeviceBuffer lse = Upload(std::vector<float>(kRows));
      ops().MergeStates(stream(), {.num_states = num_states,
                                   .states = in.tensor,
                                   .states_lse = in_lse.as<float>(),
                                   .out = out.tensor,
                                   .lse = lse.as<float>()});
      ExpectMerged(states, DownloadTensor(out.tensor), Download<float>(lse.data(), kRows), dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MergeStateTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
