// Conversions of 8-bit floating-point numbers, every one of their values.
#include "kernels/base/float8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace quire {
namespace {

// The numbers of a format, in ascending order, from its definition: sign, exponent, mantissa.
std::vector<double> FiniteMagnitudes(int exponent_bits, int last) {
  const int mantissa_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  std::vector<double> magnitudes;
  for (int bits = 0; bits <= last; ++bits) {
    const int exponent = bits >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
    const double whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    magnitudes.push_back(std::ldexp(whole, std::max(exponent, 1) - bias - mantissa_bits));
  }
  return magnitudes;
}

// The nearest of them; of two the one with an even code.
int Nearest(const std::vector<double>& magnitudes, double value) {
  int best = 0;
  for (int i = 0; i < static_cast<int>(magnitudes.size()); ++i) {
    const double is = std::abs(magnitudes[i] - value), was = std::abs(magnitudes[best] - value);
    if (is < was || (is == was && i % 2 == 0)) best = i;
  }
  return best;
}

template <typename T>
void CheckAllNumbers(int exponent_bits, double max_finite) {
  const std::vector<double> magnitudes = FiniteMagnitudes(exponent_bits, T::kMaxFiniteBits);
  EXPECT_EQ(magnitudes.back(), max_finite);
  for (int code = 0; code < static_cast<int>(magnitudes.size()); ++code) {
    for (const int sign : {0, 0x80}) {
      T number;
      number.bits = static_cast<uint8_t>(code | sign);
      const double value = (sign == 0 ? 1 : -1) * magnitudes[code];
      EXPECT_EQ(static_cast<float>(number), value) << code;
      EXPECT_EQ(std::signbit(static_cast<float>(number)), sign != 0) << code;
      EXPECT_EQ(T(static_cast<float>(number)).bits, number.bits) << code;
    }
    // Between neighbours: their middle, and the next float on either side of it.
    const double next = code + 1 < static_cast<int>(magnitudes.size())
                            ? magnitudes[code + 1]
                            : 2 * magnitudes[code] - magnitudes[code - 1];
    const auto middle = static_cast<float>((magnitudes[code] + next) / 2);
    for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      EXPECT_EQ(T(value).bits, Nearest(magnitudes, value)) << value;
      EXPECT_EQ(T(-value).bits, 0x80 | Nearest(magnitudes, value)) << value;
    }
  }
}

TEST(Float8Test, ConvertsEveryNumberAndRoundsToNearestEven) {
  CheckAllNumbers<Float8E4M3>(4, 448);
  CheckAllNumbers<Float8E5M2>(5, 57344);
}

template <typename T>
void CheckExtremes() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {kInfinity, std::numeric_limits<float>::max(), 1e6f}) {
    EXPECT_EQ(T(value).bits, T::kMaxFiniteBits);
    EXPECT_EQ(T(-value).bits, 0x80 | T::kMaxFiniteBits);
  }
  for (const float value :
       {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(), 1e-9f}) {
    EXPECT_EQ(T(value).bits, 0);
    EXPECT_EQ(T(-value).bits, 0x80);
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(T(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(static_cast<float>(T(std::numeric_limits<float>::signaling_NaN()))));
}

TEST(Float8Test, SaturatesAndKeepsNan) {
  CheckExtremes<Float8E4M3>();
  CheckExtremes<Float8E5M2>();
  Float8E5M2 infinity;
  infinity.bits = 0x7c;
  EXPECT_EQ(static_cast<float>(infinity), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace quire
