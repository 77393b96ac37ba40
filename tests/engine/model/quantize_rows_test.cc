// QuantizeToFloat8 by what codes and scales are for.
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

float ValueOf(int code) {
  Float8E4M3 value;
  value.bits = static_cast<uint8_t>(code);
  return static_cast<float>(value);
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
    const float error = std::abs(rows[i] - ValueOf(out.codes[i]) * scale);
    for (int code = 0; code < 256; ++code) {
      if ((code & 0x7f) == Float8E4M3::kNanBits) continue;
      // Two codes may be equally near, except for the rounding of this comparison.
      ASSERT_LE(error, std::abs(rows[i] - ValueOf(code) * scale) * (1 + 1e-5f)) << rows[i];
    }
    const int magnitude = out.codes[i] & 0x7f;
    num_zero += magnitude == 0 ? 1 : 0;
    num_subnormal += magnitude > 0 && magnitude < 8 ? 1 : 0;
  }
  EXPECT_GT(num_zero, 0);
  EXPECT_GT(num_subnormal, 0);
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
