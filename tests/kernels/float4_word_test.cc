// Eight 4-bit floats in a word: what is put in comes out, as bfloat16s that are too small by 2^126.
#include "kernels/float4_word.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>

namespace quire {
namespace {

TEST(Float4WordTest, EveryPairComesOutOfAnyWord) {
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    uint32_t pairs[4];
    for (uint32_t& pair : pairs) pair = Float4Bits(random() % 16, random() % 16);
    const uint32_t word = Float4Word(pairs);
    for (int j = 0; j < 4; ++j) ASSERT_EQ(Float4Pair(word, j), pairs[j]) << "pair " << j;
  }
}

TEST(Float4WordTest, EveryWordIsMadeOfItsPairs) {
  std::mt19937 random(2);
  for (int i = 0; i < 100000; ++i) {
    const auto word = static_cast<uint32_t>(random());
    const uint32_t pairs[] = {Float4Pair(word, 0), Float4Pair(word, 1), Float4Pair(word, 2),
                              Float4Pair(word, 3)};
    ASSERT_EQ(Float4Word(pairs), word);
  }
}

TEST(Float4WordTest, BitsAreThoseOfSmallBfloat16s) {
  for (uint32_t code = 0; code < 16; ++code) {
    const double value =
        (code & 8 ? -1 : 1) * std::array{0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}[code & 7];
    for (const bool is_upper : {false, true}) {
      const uint32_t bits = is_upper ? Float4Bits(0, code) >> 16 : Float4Bits(code, 0);
      EXPECT_EQ(std::ldexp(std::bit_cast<float>(bits << 16), 126), value) << "code " << code;
    }
  }
}

}  // namespace
}  // namespace quire
