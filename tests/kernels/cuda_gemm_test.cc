// Every way in which Gemm may compute a gemm, since which one serves is decided by measuring: each
// gives the reference's numbers, and a gated gemm those of its two operations.
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm/gemm.h"
#include "tests/kernels/kernel_test.h"
#include "tests/reference/linear.h"

namespace quire::cuda {
namespace {

class CudaGemmTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    gemm_ = Gemm::Create(backend().device()).value();
  }

  CudaStream& cuda_stream() { return CudaStream::From(stream()); }

  struct Case {
    int64_t m, n, k;
    DType dtype = DType::kBF16, out_dtype = DType::kBF16;
    bool bias = false;
  };

  // visit(choice, out) after each candidate has computed the case; how many there are of our own.
  template <typename Visit>
  int ForEachCandidate(const Case& c, const LinearArgs& args, const Visit& visit) {
    int num_own = 0;
    const std::vector<GemmChoice> candidates = gemm_->Candidates(args).value();
    for (const GemmChoice& choice : candidates) {
      num_own += choice.kernel == GemmKernel::kCublasLt ? 0 : 1;
      SCOPED_TRACE(testing::Message()
                   << "m " << c.m << " n " << c.n << " k " << c.k << " " << DTypeName(c.dtype)
                   << " kernel " << static_cast<int>(choice.kernel) << " variant "
                   << choice.variant);
      visit(choice);
      if (HasFatalFailure()) break;
    }
    return num_own;
  }

  // Of our own candidates, how many there were.
  int ExpectAllMatchReference(const Case& c) {
    const auto x = RoundTo(c.dtype, RandomNormal(c.m * c.k, 1));
    const auto weight = RoundTo(c.dtype, RandomNormal(c.n * c.k, 2));
    const auto bias = c.bias ? RandomNormal(c.n, 3) : std::vector<float>();
    const DeviceTensor weight_device = UploadTensor(weight, c.dtype, {c.n, c.k});
    const LinearWeight linear = {.data = weight_device.buffer.data(),
                                 .dtype = c.dtype,
                                 .out_features = c.n,
                                 .in_features = c.k};
    const DeviceTensor x_device = UploadTensor(x, c.dtype, {c.m, c.k});
    const DeviceTensor bias_device = UploadTensor(bias, DType::kF32, {c.n});
    // A row more, which must stay.
    const std::vector<float> unwritten((c.m + 1) * c.n, 77.0f);
    const DeviceTensor out = UploadTensor(unwritten, c.out_dtype, {c.m + 1, c.n});
    const auto expected = reference::Linear(x, weight, bias, c.m, c.n, c.k);
    const LinearArgs args = {.x = x_device.tensor,
                             .weight = &linear,
                             .bias = c.bias ? bias_device.tensor : Tensor(),
                             .out = Tensor(out.buffer.data(), c.out_dtype, {c.m, c.n})};
    return ForEachCandidate(c, args, [&](const GemmChoice& choice) {
      Overwrite(out.buffer, BytesOf(c.out_dtype, unwritten));
      ASSERT_TRUE(gemm_->Run(args, choice, cuda_stream()).ok());
      const auto actual = DownloadTensor(out.tensor);
      for (int64_t i = 0; i < c.m * c.n; ++i) {
        const double addend = c.bias ? bias[i % c.n] : 0.0;
        const double rounded = std::abs(expected.out[i]) + std::abs(expected.out[i] - addend);
        ASSERT_NEAR(
            actual[i], expected.out[i],
            (c.k + 2) * 0x1p-22 * expected.magnitude[i] + OutputRounding(c.out_dtype) * rounded)
            << "row " << i / c.n << " column " << i % c.n;
      }
      for (int64_t i = c.m * c.n; i < (c.m + 1) * c.n; ++i) ASSERT_EQ(actual[i], 77.0f);
    });
  }

  std::unique_ptr<Gemm> gemm_;
};

// Rows on both sides of every kernel's size, features that fill no tile, depths of fewer steps than
// a cluster has CTAs and of more than a ring has stages, several tiles for one CTA.
TEST_P(CudaGemmTest, EveryCandidateMatchesReference) {
  for (const int64_t m : {1, 16, 17, 31, 33, 56, 63, 64, 65, 129, 256}) {
    for (const auto& [n, k] :
         {std::pair(8, 8), {75, 520}, {76, 520}, {130, 72}, {200, 136}, {132, 2056}}) {
      const int num_own = ExpectAllMatchReference({.m = m, .n = n, .k = k, .bias = m % 2 == 0});
      if (HasFatalFailure()) return;
      EXPECT_EQ(num_own > 0, m <= 16 || n % 4 == 0);
    }
  }
}

// Tiles that rows and features do not fill, of the second CTA of a cluster none; depths of fewer
// steps than a ring has stages; more tiles than places, and more rows than go through the weight at
// a time.
TEST_P(CudaGemmTest, ManyRows) {
  for (const auto& [m, n, k] : {std::tuple(129, 16, 8),
                                {192, 352, 520},
                                {200, 240, 136},
                                {300, 400, 520},
                                {512, 256, 1032},
                                {300, 17936, 72},
                                {4400, 144, 8},
                                {4400, 2064, 72}}) {
    const int num_own = ExpectAllMatchReference({.m = m, .n = n, .k = k, .bias = m % 16 == 0});
    if (HasFatalFailure()) return;
    EXPECT_GT(num_own, 0);
  }
  ExpectAllMatchReference(
      {.m = 260, .n = 272, .k = 264, .dtype = DType::kF16, .out_dtype = DType::kF16, .bias = true});
  // Only cuBLASLt computes these.
  EXPECT_EQ(ExpectAllMatchReference({.m = 260, .n = 24, .k = 64}), 0);
  EXPECT_EQ(ExpectAllMatchReference({.m = 260, .n = 32, .k = 64, .out_dtype = DType::kF32}), 0);
}

TEST_P(CudaGemmTest, MoreTilesThanPlaces) {
  ExpectAllMatchReference({.m = 17, .n = 70000, .k = 96, .out_dtype = DType::kF32});
  ExpectAllMatchReference({.m = 40, .n = 70000, .k = 96, .out_dtype = DType::kF32});
}

TEST_P(CudaGemmTest, Float16AndFloat32Results) {
  for (const int64_t m : {16, 24, 64, 130}) {
    ExpectAllMatchReference(
        {.m = m, .n = 300, .k = 640, .dtype = DType::kF16, .out_dtype = DType::kF16, .bias = true});
    ExpectAllMatchReference({.m = m, .n = 301, .k = 640, .out_dtype = DType::kF32});
    ExpectAllMatchReference(
        {.m = m, .n = 300, .k = 64, .dtype = DType::kF16, .out_dtype = DType::kF32});
  }
}

TEST_P(CudaGemmTest, EveryGatedCandidateIsItsTwoOperations) {
  for (const auto& [m, size] : {std::pair<int64_t, int64_t>(7, 44),
                                {24, 44},
                                {64, 132},
                                {50, 300},
                                {150, 136},
                                {257, 400}}) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const int64_t k = 328;
      const DeviceTensor weight =
          UploadTensor(RandomNormal(2 * size * k, 8, 0.1f), dtype, {2 * size, k});
      const LinearWeight linear = {
          .data = weight.buffer.data(), .dtype = dtype, .out_features = 2 * size, .in_features = k};
      const DeviceTensor x = UploadTensor(RandomNormal(m * k, 9), dtype, {m, k});
      const DeviceTensor bias = UploadTensor(RandomNormal(2 * size, 10), DType::kF32, {2 * size});
      const DeviceTensor gate_up =
          UploadTensor(std::vector<float>(2 * m * size), dtype, {m, 2 * size});
      const DeviceTensor out = UploadTensor(std::vector<float>(m * size), dtype, {m, size});
      GatedLinearArgs args = {
          .x = x.tensor,
          .weight = &linear,
          .bias = bias.tensor,
          .activation = m % 2 == 0 ? Activation::kGeluTanh : Activation::kClampedSwish,
          .gate_up = gate_up.tensor,
          .out = out.tensor};
      const Case c = {.m = m, .n = 2 * size, .k = k, .dtype = dtype};
      ForEachCandidate(c, args.Linear(), [&](const GemmChoice& choice) {
        gemm_->Choose(Gemm::KeyOf(args.Linear()), choice);
        gemm_->Linear(args.Linear(), cuda_stream());
        ops().GatedActivation(stream(), args.Activate());
        const auto expected = DownloadTensor(out.tensor);
        Overwrite(out.buffer, std::vector<char>(m * size * DTypeBytes(dtype), '\xff'));
        gemm_->GatedLinear(args, cuda_stream());
        ASSERT_EQ(DownloadTensor(out.tensor), expected);
      });
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CudaGemmTest, testing::ValuesIn(CudaTargets()), TargetName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaGemmTest);

}  // namespace
}  // namespace quire::cuda
