// Merging partial attentions, against arithmetic in double. Skipped where there is no GPU.
#include "kernels/cuda/attention/merge_state.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/cuda_stream.h"
#include "tests/kernels/kernel_test.h"

namespace quire::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class MergeStateTest : public KernelTest {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MergeStateTest);

TEST_P(MergeStateTest, MatchesArithmeticInDouble) {
  constexpr int64_t kTokens = 3;
  constexpr int64_t kHeads = 5;
  constexpr int64_t kDim = 72;
  std::vector<float> lse_a = RandomNormal(kTokens * kHeads, 1, 3.0f);
  std::vector<float> lse_b = RandomNormal(kTokens * kHeads, 2, 3.0f);
  lse_a[3] = -kInfinity;
  lse_a[7] = lse_b[7] = -kInfinity;
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const std::vector<float> a = RoundTo(dtype, RandomNormal(kTokens * kHeads * kDim, 3));
    const std::vector<float> b = RoundTo(dtype, RandomNormal(kTokens * kHeads * kDim, 4));
    const DeviceTensor out_a = UploadTensor(a, dtype, {kTokens, kHeads, kDim});
    const DeviceTensor out_b = UploadTensor(b, dtype, {kTokens, kHeads, kDim});
    const DeviceBuffer device_lse_a = Upload(lse_a);
    const DeviceBuffer device_lse_b = Upload(lse_b);
    // In place.
    LaunchMergeState({.out_a = out_a.tensor,
                      .lse_a = device_lse_a.as<float>(),
                      .out_b = out_b.tensor,
                      .lse_b = device_lse_b.as<float>(),
                      .out = out_a.tensor,
                      .lse = device_lse_a.as<float>()},
                     CudaStream::From(stream()).handle());
    const std::vector<float> out = DownloadTensor(out_a.tensor);
    const std::vector<float> lse = Download<float>(device_lse_a.data(), kTokens * kHeads);
    for (int64_t row = 0; row < kTokens * kHeads; ++row) {
      const double weight_a = std::exp2(lse_a[row]);
      const double weight_b = std::exp2(lse_b[row]);
      const double sum = weight_a + weight_b;
      if (sum == 0) {
        EXPECT_EQ(lse[row], -kInfinity);
      } else {
        EXPECT_NEAR(lse[row], std::log2(sum), 1e-5);
      }
      for (int64_t i = row * kDim; i < (row + 1) * kDim; ++i) {
        const double expected = sum == 0 ? 0.0 : (weight_a * a[i] + weight_b * b[i]) / sum;
        ASSERT_NEAR(out[i], expected, 1e-5 + OutputRounding(dtype) * std::abs(expected));
      }
    }
  }
}

std::vector<KernelTarget> CudaTargets() {
  std::vector<KernelTarget> targets;
  for (const KernelTarget& target : KernelTargets()) {
    if (target.kind == DeviceKind::kCuda) targets.push_back(target);
  }
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Targets, MergeStateTest, testing::ValuesIn(CudaTargets()), TargetName);

}  // namespace
}  // namespace quire::cuda
