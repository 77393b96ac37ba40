// The packed gemm, with every instruction set this machine has and with emulated AMX.
#include "tests/reference/linear.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/packing.h"
#include "tests/kernels/gemm_targets.h"

namespace quire::cpu {
namespace {

// Row-major values that are exact in `dtype`, as float and as stored.
struct Matrix {
  DType dtype;
  int64_t rows, cols;
  std::vector<float> values;
  std::vector<BFloat16> bf16;

  Matrix(DType dtype, int64_t rows, int64_t cols, uint32_t seed)
      : dtype(dtype), rows(rows), cols(cols), values(rows * cols), bf16(rows * cols) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < values.size(); ++i) Set(i, normal(rng));
  }

  void Set(size_t i, float value) {
    bf16[i] = BFloat16(value);
    values[i] = dtype == DType::kBF16 ? static_cast<float>(bf16[i]) : value;
  }
  void* data() { return dtype == DType::kBF16 ? static_cast<void*>(bf16.data()) : values.data(); }
  Tensor tensor() { return Tensor(data(), dtype, {rows, cols}); }
  Tensor row(int64_t r) {
    return Tensor(static_cast<char*>(data()) + r * cols * DTypeBytes(dtype), dtype, {1, cols});
  }
};

struct PackedWeight {
  std::vector<char> data;
  LinearWeight weight;

  // Memory that is all NaN first: padding must be harmless.
  explicit PackedWeight(Matrix& matrix)
      : data(PackedBytes(matrix.rows, matrix.cols, matrix.dtype), '\xff'),
        weight{.data = data.data(),
               .dtype = matrix.dtype,
               .out_features = matrix.rows,
               .in_features = matrix.cols} {
    PackRows(weight, 0, matrix.tensor());
  }
};

float ValueAt(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kF32 ? tensor.as<float>()[i]
                                       : static_cast<float>(tensor.as<BFloat16>()[i]);
}

class LinearTest : public testing::TestWithParam<std::tuple<GemmTarget, DType>> {
 protected:
  const GemmKernel& kernel() const { return std::get<0>(GetParam()).kernel; }
  DType dtype() const { return std::get<1>(GetParam()); }

  // The bytes of x * weight^T + bias.
  std::vector<char> Run(const Tensor& x, const LinearWeight& weight, const Tensor& bias,
                        DType out_dtype, ThreadPool& pool) {
    std::vector<char> out(x.dim(0) * weight.out_features * DTypeBytes(out_dtype));
    Gemm(kernel()).Linear({.x = x,
                           .weight = &weight,
                           .bias = bias,
                           .out = Tensor(out.data(), out_dtype, {x.dim(0), weight.out_features})},
                          pool);
    return out;
  }

  // Each rounding of a chain of k additions is at most half an ulp of what was added so far.
  void ExpectMatchesReference(int64_t m, int64_t n, int64_t k, bool with_bias, DType out_dtype) {
    SCOPED_TRACE(testing::Message() << "m " << m << " n " << n << " k " << k << " bias "
                                    << with_bias << " out " << DTypeName(out_dtype));
    Matrix x(dtype(), m, k, 1), weight(dtype(), n, k, 2), bias(dtype(), 1, n, 3);
    PackedWeight packed(weight);
    const Tensor bias_tensor = with_bias ? Tensor(bias.data(), dtype(), {n}) : Tensor();
    std::vector<char> out = Run(x.tensor(), packed.weight, bias_tensor, out_dtype, pool_);
    const reference::LinearResult expected = reference::Linear(
        x.values, weight.values, with_bias ? bias.values : std::vector<float>(), m, n, k);
    const Tensor actual(out.data(), out_dtype, {m, n});
    const double out_rounding = out_dtype == DType::kBF16 ? 0x1p-8 : 0x1p-23;
    for (int64_t i = 0; i < m * n; ++i) {
      const double tolerance = (k + 2) * 0x1p-24 * expected.magnitude[i] +
                               out_rounding * std::abs(expected.out[i]) + 1e-30;
      ASSERT_NEAR(ValueAt(actual, i), expected.out[i], tolerance)
          << "row " << i / n << " column " << i % n;
    }
  }

  // The first rows of a batch in batches of these sizes, in ascending order.
  void ExpectBitsOfRowsAlone(int64_t n, int64_t k, const std::vector<int64_t>& batch_sizes) {
    const int64_t max_rows = batch_sizes.back();
    Matrix x(dtype(), max_rows, k, 4), weight(dtype(), n, k, 5), bias(dtype(), 1, n, 6);
    PackedWeight packed(weight);
    const Tensor bias_tensor(bias.data(), dtype(), {n});
    std::vector<std::vector<char>> alone;
    for (int64_t r = 0; r < max_rows; ++r) {
      alone.push_back(Run(x.row(r), packed.weight, bias_tensor, DType::kF32, pool_));
    }
    for (int64_t m : batch_sizes) {
      const Tensor batch(x.data(), dtype(), {m, k});
      std::vector<char> out = Run(batch, packed.weight, bias_tensor, DType::kF32, pool_);
      for (int64_t r = 0; r < m; ++r) {
        ASSERT_EQ(std::memcmp(out.data() + r * n * 4, alone[r].data(), n * 4), 0)
            << "row " << r << " of " << m;
      }
    }
  }

  ThreadPool pool_{2};
};

TEST_P(LinearTest, MatchesReferenceAtAwkwardSizes) {
  int case_index = 0;
  for (int64_t m : {1, 2, 7, 33, 129}) {
    for (int64_t n : {1, 15, 16, 17, 96}) {
      for (int64_t k : {1, 2, 63, 64, 100, 1000}) {
        ++case_index;
        ExpectMatchesReference(m, n, k, case_index % 2 == 0,
                               case_index % 3 == 0 ? DType::kF32 : dtype());
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(LinearTest, MatchesReferenceBeyondOneBlockOfRowsOrSteps) {
  ExpectMatchesReference(1100, 130, 40, true, dtype());
  ExpectMatchesReference(40, 70, 2501, false, DType::kF32);
}

TEST_P(LinearTest, BiasMayBeFloat32) {
  Matrix x(dtype(), 3, 8, 1), weight(dtype(), 70, 8, 2), bias(DType::kF32, 1, 70, 3);
  PackedWeight packed(weight);
  const Tensor bias_tensor(bias.data(), DType::kF32, {70});
  std::vector<char> out = Run(x.tensor(), packed.weight, bias_tensor, DType::kF32, pool_);
  const auto expected = reference::Linear(x.values, weight.values, bias.values, 3, 70, 8);
  for (int64_t i = 0; i < 3 * 70; ++i) {
    EXPECT_NEAR(ValueAt(Tensor(out.data(), DType::kF32, {3, 70}), i), expected.out[i], 1e-5);
  }
}

TEST_P(LinearTest, BitsOfARowDoNotDependOnItsBatch) {
  ExpectBitsOfRowsAlone(
      150, 301, {2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 29, 32, 33, 48, 49, 129, 700});
}

// A row this long takes its steps in several slices when there are many rows; a single row does
// not.
TEST_P(LinearTest, BitsOfALongRowDoNotDependOnItsBatch) {
  ExpectBitsOfRowsAlone(70, 2501, {13, 17, 33, 48});
}

TEST_P(LinearTest, BitsDoNotDependOnTheNumberOfThreads) {
  Matrix x(dtype(), 40, 2000, 7), weight(dtype(), 1000, 2000, 8);
  PackedWeight packed(weight);
  ThreadPool one(1), five(5);
  const std::vector<char> expected = Run(x.tensor(), packed.weight, {}, dtype(), one);
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_EQ(Run(x.tensor(), packed.weight, {}, dtype(), five), expected);
  }
}

TEST_P(LinearTest, ABrokenRowLeavesItsNeighboursAlone) {
  for (const auto& [m, broken] : {std::pair<int64_t, int64_t>{9, 4}, {40, 20}}) {
    SCOPED_TRACE(m);
    const int64_t n = 80, k = 65;
    Matrix x(dtype(), m, k, 9), weight(dtype(), n, k, 10);
    PackedWeight packed(weight);
    const std::vector<char> clean = Run(x.tensor(), packed.weight, {}, DType::kF32, pool_);
    x.Set(broken * k + 64, std::numeric_limits<float>::quiet_NaN());
    std::vector<char> out = Run(x.tensor(), packed.weight, {}, DType::kF32, pool_);
    for (int64_t r = 0; r < m; ++r) {
      const bool same = std::memcmp(out.data() + r * n * 4, clean.data() + r * n * 4, n * 4) == 0;
      EXPECT_EQ(same, r != broken) << "row " << r;
    }
    for (int64_t c = 0; c < n; ++c) {
      EXPECT_TRUE(std::isnan(ValueAt(Tensor(out.data(), DType::kF32, {m, n}), broken * n + c)));
    }
  }
}

TEST_P(LinearTest, ReadsAndWritesColumnSlices) {
  const int64_t m = 20, n = 65, k = 33, x_stride = 50, out_stride = 90;
  Matrix wide(dtype(), m, x_stride, 11), weight(dtype(), n, k, 12);
  PackedWeight packed(weight);
  std::vector<float> out(m * out_stride, 77.0f);
  Gemm(kernel()).Linear({.x = Tensor(wide.data(), dtype(), {m, k}).WithRowStride(x_stride),
                         .weight = &packed.weight,
                         .out = Tensor(out.data(), DType::kF32, {m, n}).WithRowStride(out_stride)},
                        pool_);
  for (int64_t r = 0; r < m; ++r) {
    Tensor row(static_cast<char*>(wide.data()) + r * x_stride * DTypeBytes(dtype()), dtype(),
               {1, k});
    std::vector<char> alone = Run(row, packed.weight, {}, DType::kF32, pool_);
    ASSERT_EQ(std::memcmp(out.data() + r * out_stride, alone.data(), n * 4), 0) << "row " << r;
    for (int64_t c = n; c < out_stride; ++c) ASSERT_EQ(out[r * out_stride + c], 77.0f);
  }
}

TEST_P(LinearTest, NoRowsIsNothingToDo) {
  Matrix weight(dtype(), 5, 6, 13);
  PackedWeight packed(weight);
  EXPECT_TRUE(
      Run(Tensor(weight.data(), dtype(), {0, 6}), packed.weight, {}, dtype(), pool_).empty());
}

INSTANTIATE_TEST_SUITE_P(All, LinearTest,
                         testing::Combine(testing::ValuesIn(GemmTargets()),
                                          testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" +
                                  DTypeName(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace quire::cpu
