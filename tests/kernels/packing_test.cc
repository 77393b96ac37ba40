// Loading and filling packed weights, seen through UnpackRow.
#include "kernels/cpu/gemm/packing.h"

#include <bit>
#include <cmath>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace quire::cpu {
namespace {

struct Weight {
  std::vector<char> data;
  LinearWeight view;

  Weight(DType dtype, int64_t out_features, int64_t in_features, char garbage = 0x7f)
      : data(PackedBytes(out_features, in_features, dtype), garbage),
        view{.data = data.data(),
             .dtype = dtype,
             .out_features = out_features,
             .in_features = in_features} {}

  std::vector<float> Row(int64_t row) const {
    std::vector<float> values(view.in_features);
    if (view.dtype == DType::kF32) {
      UnpackRow(view, row, values.data());
      return values;
    }
    std::vector<BFloat16> bf16(view.in_features);
    UnpackRow(view, row, bf16.data());
    for (size_t i = 0; i < bf16.size(); ++i) values[i] = static_cast<float>(bf16[i]);
    return values;
  }
};

float Value(int64_t row, int64_t column) { return static_cast<float>(row * 3 - column) / 4; }

class PackingTest : public testing::TestWithParam<DType> {
 protected:
  // What a weight of this dtype keeps of a value.
  static float Stored(float value) {
    return GetParam() == DType::kBF16 ? static_cast<float>(BFloat16(value)) : value;
  }
};

TEST_P(PackingTest, RowsComeBack) {
  for (int64_t rows : {1, 63, 64, 65, 200}) {
    for (int64_t cols : {1, 2, 5, 64}) {
      Weight weight(GetParam(), rows, cols);
      std::vector<float> values;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) values.push_back(Value(r, c));
      }
      PackRows(weight.view, 0, Tensor(values.data(), DType::kF32, {rows, cols}));
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(weight.Row(r)[c], Stored(Value(r, c)));
      }
    }
  }
}

// Rows 0-99, 100-101 and 102-149 share two panels.
TEST_P(PackingTest, ThreadsMayPackDisjointRangesOfOnePanel) {
  const int64_t cols = 333;
  Weight weight(GetParam(), 150, cols);
  auto pack = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      std::vector<float> row;
      for (int64_t c = 0; c < cols; ++c) row.push_back(Value(r, c));
      PackRows(weight.view, r, Tensor(row.data(), DType::kF32, {1, cols}));
    }
  };
  std::thread a(pack, 0, 100), b(pack, 100, 102), c(pack, 102, 150);
  a.join();
  b.join();
  c.join();
  for (int64_t r = 0; r < 150; ++r) {
    for (int64_t col = 0; col < cols; ++col) {
      ASSERT_EQ(weight.Row(r)[col], Stored(Value(r, col))) << r << " " << col;
    }
  }
}

TEST_P(PackingTest, ConvertsBFloat16) {
  std::vector<BFloat16> values = {BFloat16(1.5f), BFloat16(-3e38f), BFloat16(0.0f)};
  Weight weight(GetParam(), 1, 3);
  PackRows(weight.view, 0, Tensor(values.data(), DType::kBF16, {1, 3}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(weight.Row(0)[i], static_cast<float>(values[i]));
}

TEST_P(PackingTest, ConvertsFloat16) {
  // 1, -2, the largest, the smallest normal, the smallest subnormal, -0, infinity, 1/3.
  std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000, 0x7c00, 0x3555};
  const std::vector<float> expected = {1.0f,     -2.0f, 65504.0f, 0x1p-14f,
                                       0x1p-24f, -0.0f, INFINITY, 0x1.554p-2f};
  Weight weight(GetParam(), 1, 8);
  PackRows(weight.view, 0, Tensor(halves.data(), DType::kF16, {1, 8}));
  for (int i = 0; i < 8; ++i) {
    const float stored = Stored(expected[i]);
    EXPECT_EQ(std::bit_cast<uint32_t>(weight.Row(0)[i]), std::bit_cast<uint32_t>(stored)) << i;
  }
  std::vector<uint16_t> nan = {0x7e00};
  Weight one(GetParam(), 1, 1);
  PackRows(one.view, 0, Tensor(nan.data(), DType::kF16, {1, 1}));
  EXPECT_TRUE(std::isnan(one.Row(0)[0]));
}

TEST_P(PackingTest, SourceRowsMayBeApart) {
  std::vector<float> values = {1, 2, 99, 3, 4, 99};
  Weight weight(GetParam(), 2, 2);
  PackRows(weight.view, 0, Tensor(values.data(), DType::kF32, {2, 2}).WithRowStride(3));
  EXPECT_EQ(weight.Row(0), (std::vector<float>{1, 2}));
  EXPECT_EQ(weight.Row(1), (std::vector<float>{3, 4}));
}

TEST_P(PackingTest, FilledNumbersDependOnRowAndColumnOnly) {
  const FillWeightArgs args{.seed = 5, .tensor_id = 7, .stddev = 0.5f};
  ThreadPool one(1), three(3);
  Weight small(GetParam(), 70, 33), large(GetParam(), 300, 64);
  Weight exact(DType::kF32, 70, 33);
  FillNormal(small.view, args, one);
  FillNormal(large.view, args, three);
  FillNormal(exact.view, args, one);
  for (int64_t r = 0; r < 70; ++r) {
    for (int64_t c = 0; c < 33; ++c) {
      ASSERT_EQ(small.Row(r)[c], large.Row(r)[c]);
      ASSERT_EQ(small.Row(r)[c], Stored(exact.Row(r)[c]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, PackingTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

struct Moments {
  double mean, stddev, kurtosis;
};

Moments MomentsOf(const Weight& weight) {
  double sum = 0, square = 0, fourth = 0;
  const double count = static_cast<double>(weight.view.out_features * weight.view.in_features);
  for (int64_t r = 0; r < weight.view.out_features; ++r) {
    for (double v : weight.Row(r)) {
      sum += v;
      square += v * v;
      fourth += v * v * v * v;
    }
  }
  const double variance = square / count;
  return {sum / count, std::sqrt(variance), fourth / count / (variance * variance)};
}

TEST(FillNormalTest, HasTheMomentsOfANormal) {
  ThreadPool pool(2);
  Weight weight(DType::kF32, 500, 1000);
  FillNormal(weight.view, {.seed = 1, .tensor_id = 2, .stddev = 0.02f}, pool);
  const Moments moments = MomentsOf(weight);
  EXPECT_NEAR(moments.mean, 0, 5 * 0.02 / std::sqrt(5e5));
  EXPECT_NEAR(moments.stddev, 0.02, 0.02 * 0.01);
  EXPECT_NEAR(moments.kurtosis, 3.0 - 1.2 / 8, 0.05);  // of a sum of 8 uniform numbers
}

TEST(FillNormalTest, SeedTensorRowAndColumnAllCount) {
  ThreadPool pool(1);
  std::set<std::vector<float>> rows;
  for (uint64_t seed : {0, 1}) {
    for (uint64_t tensor_id : {0, 1}) {
      Weight weight(DType::kF32, 4, 16);
      FillNormal(weight.view, {.seed = seed, .tensor_id = tensor_id, .stddev = 1.0f}, pool);
      for (int64_t r = 0; r < 4; ++r) {
        const std::vector<float> row = weight.Row(r);
        rows.insert(row);
        EXPECT_GE(std::set<float>(row.begin(), row.end()).size(), 14u);
      }
    }
  }
  EXPECT_EQ(rows.size(), 16u);
}

}  // namespace
}  // namespace quire::cpu
