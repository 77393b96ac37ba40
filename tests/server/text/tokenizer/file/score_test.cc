#include "server/text/tokenizer/file/score.h"

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "gtest/gtest.h"

namespace quire {
namespace {

struct Reading {
  std::string_view number;
  double value;
};

// The values are what tokenizers 0.23.3 writes for a vocabulary with these numbers.

TEST(ScoreTest, ScoresOfSeventeenDigitsAreReadAsTheReferenceDoes) {
  for (const Reading& reading :
       {Reading{"-11.265996499168297", -0x1.68830b1718e80p+3},
        {"-11.946268683518541", -0x1.7e47d5431e1d8p+3},
        {"-14.127587083419947", -0x1.c4153181d5c85p+3},
        {"-0.000000000000000000000012345678901234567", -0x1.dd99ae89eb84cp-77},
        {"-2.2250738585072011e-308", -0x1.0000000000000p-1022}}) {
    EXPECT_EQ(ReadScore(reading.number), reading.value) << reading.number;
    EXPECT_NE(std::strtod(reading.number.data(), nullptr), reading.value)
        << "this one shows nothing";
  }
}

TEST(ScoreTest, EveryFormOfANumber) {
  for (const Reading& reading : {Reading{"-9.7253", -9.7253},
                                 {"0.0", 0},
                                 {"0.30000000000000004", 0.30000000000000004},
                                 {"-1.5E2", -150},
                                 {"25e+1", 250},
                                 {"-2e-3", -0.002},
                                 {"1e022", 1e22},
                                 {"-38.09792546106601", -38.09792546106601}}) {
    EXPECT_EQ(ReadScore(reading.number), reading.value) << reading.number;
  }
}

TEST(ScoreTest, DigitsThatDoNotFitAreLeftOut) {
  for (const Reading& reading :
       {Reading{"-123456789012345678901234567890.5", -0x1.8ee90ff6c373ep+96},
        {"-18446744073709551615.25", -0x1.0p+64},
        {"184467440737095516161.5", 0x1.4p+67},
        {"-5.00000000000000000000000000000001e-1", -0.5}}) {
    EXPECT_EQ(ReadScore(reading.number), reading.value) << reading.number;
  }
}

TEST(ScoreTest, TheEndsOfTheRange) {
  EXPECT_EQ(ReadScore("-1e-320"), -1e-320);
  EXPECT_EQ(ReadScore("-1e-400"), 0);
  EXPECT_EQ(ReadScore("0e999"), 0);
  EXPECT_EQ(ReadScore("1e-99999999999999999999999"), 0);
  EXPECT_TRUE(std::isinf(ReadScore("1e309")));
  EXPECT_TRUE(std::isinf(ReadScore("1e99999999999999999999999")));
  // The nearest double is finite, but the reference refuses it.
  EXPECT_TRUE(std::isinf(ReadScore("1.79769313486231563240e308")));
}

}  // namespace
}  // namespace quire
