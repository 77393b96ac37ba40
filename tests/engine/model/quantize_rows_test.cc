// QuantizeToFloat8 against the conversion of one value, and by what its scales are for.
#include "engine/model/weights/quantize_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/float8.h"

namespace quire {
namespace {

constexpr WeightFormat kFormat = {.value = WeightValue::kFloat8, .group_columns = 128};

// Rows of awkward numbers of columns: the last group is of 72.
constexpr int64_t kRows = 5, kColumns = 200, kGroups = 2;

std::vector<float> RandomRows(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows(kRows * kColumns);
  // Over many exponents, so that normal and subnormal codes and zeros occur.
  for (float& value : rows) value = std::exp(4 * normal(random)) * (normal(random) < 0 ? -1 : 1);
  return rows;
}

TEST(QuantizeRows, EachCodeIsTheNearestOfItsGroupsScale) {
  const std::vector<float> rows = RandomRows(1);
  Float8Codes out;
  ASSERT_TRUE(QuantizeToFloat8(kFormat, rows.data(), kRows, kColumns, &out));
  ASSERT_EQ(out.codes.size(), rows.size());
  ASSERT_EQ(out.scales.size(), static_cast<size_t>(kRows * kGroups));
  int num_subnormal = 0, num_zero = 0;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const float scale = out.scales[i / kColumns * kGroups + i % kColumns / 128];
    ASSERT_EQ(out.codes[i], Float8E4M3(rows[i] / scale).bits) << rows[i] << " by " << scale;
    const int magnitude = out.codes[i] & 0x7f;
    num_zero += magnitude == 0 ? 1 : 0;
    num_subnormal += magnitude > 0 && magnitude < 8 ? 1 : 0;
  }
  EXPECT_GT(num_zero, 0);
  EXPECT_GT(num_subnormal, 0);
}

// Ties, carries into the next exponent and the border of subnormal numbers, with a scale of 1.
TEST(QuantizeRows, EveryRoundingOfEveryExponent) {
  std::vector<float> row = {448};
  for (int exponent = -12; exponent <= 8; ++exponent) {
    for (int step = 0; step < 64; ++step) {
      const float value = std::ldexp(1 + static_cast<float>(step) / 64, exponent);
      if (value > 448) continue;
      row.push_back(value);
      row.push_back(-value);
    }
  }
  const WeightFormat whole = {.value = WeightValue::kFloat8};
  const auto size = static_cast<int64_t>(row.size());
  Float8Codes out;
  ASSERT_TRUE(QuantizeToFloat8(whole, row.data(), 1, size, &out));
  ASSERT_EQ(out.scales, std::vector<float>{1});
  for (int64_t i = 0; i < size; ++i) EXPECT_EQ(out.codes[i], Float8E4M3(row[i]).bits) << row[i];
}

TEST(QuantizeRows, TheLargestOfAGroupIsKept) {
  std::vector<float> rows = RandomRows(2);
  rows[3 * kColumns + 130] = -1e6f;
  Float8Codes out;
  ASSERT_TRUE(QuantizeToFloat8(kFormat, rows.data(), kRows, kColumns, &out));
  EXPECT_EQ(out.codes[3 * kColumns + 130], 0x80 | Float8E4M3::kMaxFiniteBits);
  EXPECT_FLOAT_EQ(out.scales[3 * kGroups + 1] * 448, 1e6f);
  EXPECT_LT(out.scales[3 * kGroups], 1e4f);  // the group beside it has a scale of its own
}

TEST(QuantizeRows, ZerosAndTheSmallestNumbersBecomeZero) {
  std::vector<float> rows(kRows * kColumns, 0.0f);
  rows[7] = std::numeric_limits<float>::denorm_min();
  Float8Codes out;
  ASSERT_TRUE(QuantizeToFloat8(kFormat, rows.data(), kRows, kColumns, &out));
  EXPECT_EQ(out.codes, std::vector<uint8_t>(rows.size(), 0));
  EXPECT_EQ(out.scales, std::vector<float>(kRows * kGroups, 1.0f));
}

TEST(QuantizeRows, WhatIsNoFiniteNumberIsRefused) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> rows = RandomRows(3);
    rows[kRows * kColumns - 1] = value;
    Float8Codes out;
    EXPECT_FALSE(QuantizeToFloat8(kFormat, rows.data(), kRows, kColumns, &out)) << value;
  }
}

}  // namespace
}  // namespace quire
