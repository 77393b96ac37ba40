// Conversions of float16, every one of its values.
#include "kernels/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quire {
namespace {

constexpr uint16_t kInfinity = 0x7c00;
constexpr uint16_t kSign = 0x8000;

TEST(HalfTest, EveryValueComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_GT(bits & 0x7fffu, kInfinity);
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      ASSERT_EQ(FloatToHalf(value), bits);
    }
  }
}

// On both sides of the middle of two neighbours, and in the middle to the even one.
TEST(HalfTest, RoundsToTheNearest) {
  for (uint16_t low = 0; low < kInfinity; ++low) {
    const uint16_t high = low + 1;
    const double upper = high == kInfinity ? 65536.0 : HalfToFloat(high);
    const auto middle = static_cast<float>((HalfToFloat(low) + upper) / 2);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(FloatToHalf(middle), low % 2 == 0 ? low : high);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 1e9f)), high);
    ASSERT_EQ(FloatToHalf(-middle), (low % 2 == 0 ? low : high) | kSign);
  }
}

TEST(HalfTest, ExtremesHaveAPlace) {
  EXPECT_EQ(FloatToHalf(1e30f), kInfinity);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), kInfinity | kSign);
  EXPECT_EQ(FloatToHalf(1e-30f), 0);
  EXPECT_EQ(FloatToHalf(-0.0f), kSign);
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0x3555), 0x1.554p-2f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
}

}  // namespace
}  // namespace quire
