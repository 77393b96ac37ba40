#include "engine/model/quantization/unpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/float8.h"
#include "kernels/base/half.h"
#include "tests/engine/model/quantization/test_planes.h"

namespace quire {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint8_t E4M3(float value) { return Float8E4M3(value).bits; }

void ExpectError(const absl::Status& status, const std::vector<std::string>& parts) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

WeightScheme With(WeightScheme scheme, int64_t group_rows, int64_t group_columns) {
  scheme.group_rows = group_rows;
  scheme.group_columns = group_columns;
  return scheme;
}

// Two rows of two groups of 16: codes 2 (1.0) and 3 (1.5).
TestModule NvFp4(absl::string_view format, float global_scale) {
  TestModule module(FormatRow(format), {2, 32});
  module.Set<uint8_t>(Plane::kValues, "U8", std::vector<uint8_t>(32, 0x32));
  module.Set<uint8_t>(Plane::kScales, "F8_E4M3", {E4M3(1), E4M3(2), E4M3(4), E4M3(8)});
  module.Set<float>(Plane::kGlobalScale, "F32", {global_scale});
  return module;
}

TEST(Unpack, TheGlobalScaleOfCompressedTensorsDivides) {
  const auto values = NvFp4("nvfp4-pack-quantized", 4.0f).Values();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0], 0.25f);
  EXPECT_EQ((*values)[1], 0.375f);
  EXPECT_EQ((*values)[63], 3.0f);
}

TEST(Unpack, TheGlobalScaleOfModelOptMultiplies) {
  const auto values = NvFp4("modelopt-nvfp4", 4.0f).Values();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0], 4.0f);
  EXPECT_EQ((*values)[1], 6.0f);
  EXPECT_EQ((*values)[63], 48.0f);
}

// 448 / 3 in float32 times 6 is not 448 * 6 / 3: the quotient rounds first.
TEST(Unpack, TheGlobalScaleIsAppliedToTheScaleFirst) {
  TestModule module(FormatRow("nvfp4-pack-quantized"), {1, 16});
  module.Set<uint8_t>(Plane::kValues, "U8", std::vector<uint8_t>(8, 0x77));
  module.Set<uint8_t>(Plane::kScales, "F8_E4M3", {E4M3(13)});
  module.Set<float>(Plane::kGlobalScale, "F32", {11.0f});
  const auto values = module.Values();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0], 6.0f * (13.0f / 11.0f));
  EXPECT_EQ(module.Groups()->scale_codes, std::vector<uint8_t>{E4M3(13)});
  EXPECT_EQ(module.Groups()->global_scale, 11.0f);
}

TEST(Unpack, Float4IsTheEvenColumnInTheLowHalf) {
  TestModule module(FormatRow("mxfp4-pack-quantized"), {1, 32});
  std::vector<uint8_t> bytes(16);
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(2 * i + 1) << 4 | (2 * i);
  module.Set<uint8_t>(Plane::kValues, "U8", bytes);
  module.Set<uint8_t>(Plane::kScales, "U8", {128});
  std::vector<uint8_t> expected(32, 0);
  std::iota(expected.begin(), expected.begin() + 16, 0);
  EXPECT_EQ(*module.Codes(), expected);
  const std::vector<float> values = *module.Values();
  EXPECT_THAT(std::vector<float>(values.begin(), values.begin() + 16),
              ElementsAre(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
  EXPECT_TRUE(std::signbit(values[8]));
}

TEST(Unpack, E8M0IsAPowerOfTwoAnd255IsNoNumber) {
  EXPECT_EQ(E8M0Value(127), 1.0f);
  EXPECT_EQ(E8M0Value(0), 0x1p-127f);
  EXPECT_EQ(E8M0Value(1), 0x1p-126f);
  EXPECT_EQ(E8M0Value(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(E8M0Value(255)));
  TestModule module(FormatRow("mxfp4-pack-quantized"), {1, 32});
  module.Set<uint8_t>(Plane::kScales, "U8", {255});
  ExpectError(module.Groups().status(), {"m.weight_scale", "nan", "finite"});
  module.Set<uint8_t>(Plane::kScales, "U8", {254});  // 6 times that is infinite
  ExpectError(module.Groups().status(), {"m.weight_scale", "not finite"});
  module.Set<uint8_t>(Plane::kScales, "F8_E8M0", {0});
  EXPECT_THAT(module.Groups()->scales, ElementsAre(0x1p-127f));
}

TEST(Unpack, E4M3HasNoInfinityAndItsNanIsRefused) {
  EXPECT_EQ(E4M3Value(0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(E4M3Value(0x7f)) && std::isnan(E4M3Value(0xff)));
  TestModule module(With(FormatRow("float-quantized"), 1, 0), {2, 3});
  module.Set<float>(Plane::kScales, "F32", {1, 2});
  module.Set<uint8_t>(Plane::kValues, "F8_E4M3", {0x7e, 0xfe, 0x78, 0x80, 0, 0xf8});
  EXPECT_THAT(*module.Values(), ElementsAre(448, -448, 256, 0, 0, -512));
  for (const uint8_t nan : {0x7f, 0xff}) {
    module.Set<uint8_t>(Plane::kValues, "F8_E4M3", {1, 2, 3, 4, nan, 5});
    ExpectError(module.Codes().status(), {"m.weight", "NaN", "row 1, column 1"});
  }
}

TEST(Unpack, WeightScaleInvMultipliesAndMayBeBfloat16) {
  TestModule module(FormatRow("fp8-block"), {1, 2});
  module.Set<uint8_t>(Plane::kValues, "F8_E4M3", {E4M3(3), E4M3(-8)});
  module.Set<float>(Plane::kScales, "F32", {4});
  EXPECT_THAT(*module.Values(), ElementsAre(12, -32));
  module.Set<uint16_t>(Plane::kScales, "BF16", {BFloat16(0.5f).bits});
  EXPECT_THAT(*module.Values(), ElementsAre(1.5f, -4));
  module.Set<uint16_t>(Plane::kScales, "F16", {FloatToHalf(2)});
  EXPECT_THAT(*module.Values(), ElementsAre(6, -16));
}

TEST(Unpack, BlocksMayBeCutOffByTheEdge) {
  TestModule module(With(FormatRow("fp8-block"), 2, 3), {3, 4});
  module.Set<uint8_t>(Plane::kValues, "F8_E4M3", std::vector<uint8_t>(12, E4M3(1)));
  module.Set<float>(Plane::kScales, "F32", {1, 2, 3, 4});
  EXPECT_THAT(*module.Values(), ElementsAre(1, 1, 1, 2,  //
                                            1, 1, 1, 2,  //
                                            3, 3, 3, 4));
}

TEST(Unpack, ShardsKeepTheirOwnScales) {
  TestModule q(FormatRow("fp8-tensor"), {1, 1});
  q.Set<uint8_t>(Plane::kValues, "F8_E4M3", {E4M3(1)}).Set<float>(Plane::kScales, "F32", {2});
  TestModule k(FormatRow("fp8-tensor"), {1, 1});
  k.Set<uint8_t>(Plane::kValues, "F8_E4M3", {E4M3(1)}).Set<float>(Plane::kScales, "F32", {5});
  EXPECT_THAT(*q.Values(), ElementsAre(2));
  EXPECT_THAT(*k.Values(), ElementsAre(5));
}

TEST(Unpack, Int8IsSignedOnDiskAndUnsignedHere) {
  TestModule module(FormatRow("int-quantized"), {2, 2});
  module.Set<int8_t>(Plane::kValues, "I8", {-128, -1, 0, 127});
  module.Set<float>(Plane::kScales, "F32", {1, 2});
  EXPECT_THAT(*module.Codes(), ElementsAre(0, 127, 128, 255));
  EXPECT_THAT(module.Groups()->zero_points, ElementsAre(128, 128));
  EXPECT_THAT(*module.Values(), ElementsAre(-128, -1, 0, 254));
  WeightScheme scheme = FormatRow("int-quantized");
  scheme.zero_points = true;
  TestModule asymmetric(scheme, {2, 2});
  asymmetric.Set<int8_t>(Plane::kValues, "I8", {-128, -1, 0, 127});
  asymmetric.Set<float>(Plane::kScales, "F32", {1, 2});
  asymmetric.Set<int8_t>(Plane::kZeroPoints, "I8", {-128, 3});
  EXPECT_THAT(asymmetric.Groups()->zero_points, ElementsAre(0, 131));
  EXPECT_THAT(*asymmetric.Values(), ElementsAre(0, 127, -6, 248));
}

// 32 fields of any width fill as many words; some lie in two of them.
TEST(Unpack, PackedRowsAreDenseInAnyWidth) {
  for (int bits = 2; bits <= 8; ++bits) {
    WeightScheme scheme = With(FormatRow("pack-quantized"), 1, 0);
    scheme.bits = bits;
    constexpr int64_t kColumns = 45;
    std::vector<uint32_t> words((kColumns * bits + 31) / 32);
    std::vector<uint8_t> expected(kColumns);
    for (int64_t i = 0; i < kColumns; ++i) {
      expected[i] = static_cast<uint8_t>(i * 7 + 3) & ((1 << bits) - 1);
      const int64_t bit = i * bits;
      words[bit / 32] |= static_cast<uint32_t>(expected[i]) << bit % 32;
      if (bit % 32 + bits > 32) words[bit / 32 + 1] |= expected[i] >> (32 - bit % 32);
    }
    TestModule module(scheme, {1, kColumns});
    module.Set<uint32_t>(Plane::kValues, "I32", words).Set<float>(Plane::kScales, "F32", {1});
    EXPECT_EQ(*module.Codes(), expected) << bits;
    EXPECT_EQ((*module.Values())[0], expected[0] - (1 << (bits - 1))) << bits;
  }
}

// Ten rows of two groups: the zero points of ten rows are in two words, below each other.
TEST(Unpack, ZeroPointsOfPackedRowsArePackedAlongRows) {
  WeightScheme scheme = With(FormatRow("pack-quantized"), 1, 8);
  scheme.zero_points = true;
  TestModule module(scheme, {10, 16});
  module.Set<uint32_t>(Plane::kValues, "I32", std::vector<uint32_t>(20, 0));
  module.Set<float>(Plane::kScales, "F32", std::vector<float>(20, 1));
  // Row i has zero point i in group 0, and 15 - i in group 1.
  module.Set<uint32_t>(Plane::kZeroPoints, "I32", {0x76543210, 0x89abcdef, 0x98, 0x67});
  const WeightGroups groups = *module.Groups();
  for (int row = 0; row < 10; ++row) {
    EXPECT_EQ(groups.zero_points[row * 2], row);
    EXPECT_EQ(groups.zero_points[row * 2 + 1], 15 - row);
  }
  EXPECT_EQ((*module.Values())[9 * 16 + 15], -6);
}

TEST(Unpack, ZeroPointsOfPackedRowsMayLieInTwoWords) {
  WeightScheme scheme = With(FormatRow("pack-quantized"), 1, 0);
  scheme.bits = 3;
  scheme.zero_points = true;
  TestModule module(scheme, {12, 1});
  module.Set<float>(Plane::kScales, "F32", std::vector<float>(12, 1));
  // Row 10 begins at bit 30: 5 is 01 in the first word, and 1 in the second.
  module.Set<uint32_t>(Plane::kZeroPoints, "I32", {1u << 30, 1u | 6u << 1});
  EXPECT_THAT(module.Groups()->zero_points, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6));
}

// Eight rows, eight columns; a word of values is a row's.
TestModule Gptq(int zero_offset, uint32_t zeros, bool symmetric = false) {
  WeightScheme scheme = With(FormatRow("gptq"), 1, 8);
  scheme.zero_offset = zero_offset;
  scheme.zero_points = !symmetric;
  TestModule module(scheme, {8, 8});
  std::vector<uint32_t> words(8);
  for (uint32_t row = 0; row < 8; ++row) words[row] = 0x76543210u + 0x11111111u * row;
  module.Set<uint32_t>(Plane::kValues, "I32", words);
  module.Set<uint32_t>(Plane::kZeroPoints, "I32", {zeros});
  module.Set<uint16_t>(Plane::kScales, "F16", std::vector<uint16_t>(8, FloatToHalf(1)));
  return module;
}

TEST(Unpack, GptqWordsHoldColumnsOfARow) {
  const std::vector<uint8_t> codes = *Gptq(1, 0).Codes();
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) EXPECT_EQ(codes[row * 8 + column], row + column);
  }
}

// A field of 15 becomes 0, and nothing is carried to its neighbour.
TEST(Unpack, GptqsFirstVersionAddsOneToEachField) {
  EXPECT_THAT(Gptq(1, 0x0e7ff0f7).Groups()->zero_points, ElementsAre(8, 0, 1, 0, 0, 8, 15, 1));
  EXPECT_EQ((*Gptq(1, 0x0e7ff0f7).Values())[0], -8);
  EXPECT_EQ((*Gptq(1, 0x0e7ff0f7).Values())[8], 1);
}

TEST(Unpack, GptqsSecondVersionIsAsStored) {
  EXPECT_THAT(Gptq(0, 0x0e7ff0f7).Groups()->zero_points, ElementsAre(7, 15, 0, 15, 15, 7, 14, 0));
}

TEST(Unpack, ASymmetricGptqWithOtherZeroPointsIsMislabelled) {
  EXPECT_THAT(Gptq(1, 0x77777777, true).Groups()->zero_points, Each(8));
  EXPECT_THAT(Gptq(0, 0x88888888, true).Groups()->zero_points, Each(8));
  ExpectError(Gptq(1, 0x88888888, true).Groups().status(), {"m.qzeros", "9", "gptq_v2"});
  ExpectError(Gptq(0, 0x77777777, true).Groups().status(), {"m.qzeros", "7", "gptq_v2"});
}

TEST(Unpack, GptqOf8Bits) {
  WeightScheme scheme = With(FormatRow("gptq"), 1, 4);
  scheme.bits = 8;
  TestModule module(scheme, {4, 8});
  std::vector<uint8_t> bytes(32);
  std::iota(bytes.begin(), bytes.end(), 100);
  module.Set<uint8_t>(Plane::kValues, "I32", bytes);
  module.Set<uint8_t>(Plane::kZeroPoints, "I32", {127, 255, 0, 99, 10, 11, 12, 13});
  module.Set<uint16_t>(Plane::kScales, "F16", std::vector<uint16_t>(8, FloatToHalf(0.5f)));
  EXPECT_THAT(module.Groups()->zero_points, ElementsAre(128, 11, 0, 12, 1, 13, 100, 14));
  const std::vector<uint8_t> codes = *module.Codes();
  EXPECT_EQ(codes[0], 100);      // row 0, column 0
  EXPECT_EQ(codes[1], 101);      // row 0, column 1
  EXPECT_EQ(codes[4], 116);      // row 0, column 4: the second row of words
  EXPECT_EQ(codes[8 + 0], 104);  // row 1
  EXPECT_EQ((*module.Values())[0], -14.0f);
}

TEST(Unpack, ScalesOfGptqAreTransposed) {
  TestModule module(With(FormatRow("gptq"), 1, 4), {8, 8});
  std::vector<float> scales(16);
  std::iota(scales.begin(), scales.end(), 1);
  module.Set<float>(Plane::kScales, "F32", scales);
  module.Set<uint32_t>(Plane::kZeroPoints, "I32", {0, 0x11111111});
  const WeightGroups groups = *module.Groups();
  EXPECT_EQ(groups.scales[0], 1);
  EXPECT_EQ(groups.scales[1], 9);  // row 0, the second group
  EXPECT_EQ(groups.scales[2], 2);  // row 1
  EXPECT_THAT(std::vector<uint8_t>(groups.zero_points.begin(), groups.zero_points.begin() + 4),
              ElementsAre(1, 2, 1, 2));
}

TestModule Ordered(const std::vector<int32_t>& order, bool ordered = true) {
  WeightScheme scheme = With(FormatRow("gptq"), 1, 4);
  scheme.ordered = ordered;
  TestModule module(scheme, {8, 8});
  module.Set<uint32_t>(Plane::kValues, "I32", std::vector<uint32_t>(8, 0x99999999));
  module.Set<uint32_t>(Plane::kZeroPoints, "I32", {0x77777777, 0x77777777});
  std::vector<float> scales(16, 1);
  std::fill(scales.begin() + 8, scales.end(), 100);
  module.Set<float>(Plane::kScales, "F32", scales);
  module.Set<int32_t>(Plane::kOrder, "I32", order);
  return module;
}

TEST(Unpack, ColumnsMayBelongToGroupsInAnyOrder) {
  const TestModule module = Ordered({1, 0, 0, 1, 1, 0, 1, 0});
  const std::vector<float> values = *module.Values();
  EXPECT_THAT(std::vector<float>(values.begin(), values.begin() + 8),
              ElementsAre(100, 1, 1, 100, 100, 1, 100, 1));
  EXPECT_THAT(ColumnsByGroup(*module.Groups()), ElementsAre(1, 2, 5, 7, 0, 3, 4, 6));
}

TEST(Unpack, ColumnsInOrderNeedNone) {
  EXPECT_THAT(Ordered({0, 0, 0, 0, 1, 1, 1, 1}).Groups()->order, IsEmpty());
}

TEST(Unpack, AnOrderOfMinusOneIsNone) {
  EXPECT_THAT(Ordered(std::vector<int32_t>(8, -1)).Groups()->order, IsEmpty());
  ExpectError(Ordered({-1, -1, 0, 0, 1, 1, 1, 1}).Groups().status(), {"m.g_idx", "column"});
  ExpectError(Ordered({0, 0, -1, 0, 1, 1, 1, 1}).Groups().status(), {"m.g_idx", "-1", "column 2"});
}

TEST(Unpack, AnOrderOutOfRangeIsRefused) {
  ExpectError(Ordered({0, 0, 0, 0, 1, 1, 1, 2}).Groups().status(),
              {"m.g_idx", "group 2", "column 7", "0 to 1"});
  ExpectError(Ordered({0, 0, 0, 0, 1, 1, 1, 1 << 30}).Groups().status(), {"m.g_idx"});
}

// Eight rows, one column: the word's fields are rows in AWQ's order.
TEST(Unpack, AwqPutsEvenRowsFirst) {
  TestModule module(With(FormatRow("awq"), 1, 0), {8, 1});
  module.Set<uint32_t>(Plane::kValues, "I32", {0x76543210});
  module.Set<uint32_t>(Plane::kZeroPoints, "I32", {0xfedcba98});
  module.Set<uint16_t>(Plane::kScales, "F16", std::vector<uint16_t>(8, FloatToHalf(1)));
  EXPECT_THAT(*module.Codes(), ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(module.Groups()->zero_points, ElementsAre(8, 12, 9, 13, 10, 14, 11, 15));
  EXPECT_THAT(*module.Values(), Each(-8));  // nothing is added to zero points
}

TEST(Unpack, AwqWithoutZeroPointsHasThemInTheMiddle) {
  WeightScheme scheme = With(FormatRow("awq"), 1, 0);
  scheme.zero_points = false;
  TestModule module(scheme, {8, 1});
  module.Set<uint32_t>(Plane::kValues, "I32", {0x99999999});
  module.Set<uint16_t>(Plane::kScales, "F16", std::vector<uint16_t>(8, FloatToHalf(1)));
  EXPECT_THAT(*module.Values(), Each(1));
}

TEST(Unpack, ScalesAreFiniteNumbers) {
  TestModule module(With(FormatRow("float-quantized"), 1, 0), {2, 1});
  for (const float bad : {kNan, kInfinity, -kInfinity, -1.0f, 1e38f}) {
    module.Set<float>(Plane::kScales, "F32", {1, bad});
    ExpectError(module.Groups().status(), {"m.weight_scale", "again"});
  }
  module.Set<uint16_t>(Plane::kScales, "F16", {FloatToHalf(1), 0x7e00});
  ExpectError(module.Groups().status(), {"m.weight_scale", "nan"});
  module.Set<uint16_t>(Plane::kScales, "BF16", {0x7f80, 0x3f80});
  ExpectError(module.Groups().status(), {"m.weight_scale", "inf"});
}

// The scale of a group of tiny values rounds to it in the type that scales are kept in.
TEST(Unpack, AGroupMayHaveAScaleOfZeroButNotAll) {
  TestModule module(With(FormatRow("float-quantized"), 1, 0), {2, 1});
  module.Set<uint8_t>(Plane::kValues, "F8_E4M3", {E4M3(2), E4M3(3)});
  module.Set<float>(Plane::kScales, "F32", {0, 1});
  EXPECT_THAT(*module.Values(), ElementsAre(0, 3));
  module.Set<float>(Plane::kScales, "F32", {0, 0});
  ExpectError(module.Groups().status(), {"m.weight_scale", "no scale but 0"});
}

TEST(Unpack, IntegersMayHaveScalesBelowZero) {
  TestModule module(With(FormatRow("pack-quantized"), 1, 0), {1, 8});
  module.Set<uint32_t>(Plane::kValues, "I32", {0xf8888880});
  module.Set<float>(Plane::kScales, "F32", {-0.5f});
  EXPECT_THAT(*module.Values(), ElementsAre(4, 0, 0, 0, 0, 0, 0, -3.5f));
}

TEST(Unpack, GlobalScalesAreAboveZero) {
  for (const absl::string_view format : {"nvfp4-pack-quantized", "modelopt-nvfp4"}) {
    for (const float bad : {0.0f, -1.0f, kNan, kInfinity}) {
      ExpectError(NvFp4(format, bad).Groups().status(), {"scale", "above 0"});
    }
  }
  // e4m3 scales, too, are not below 0.
  TestModule module = NvFp4("modelopt-nvfp4", 1);
  module.Set<uint8_t>(Plane::kScales, "F8_E4M3", {E4M3(1), E4M3(-1), 1, 1});
  ExpectError(module.Groups().status(), {"m.weight_scale", "-1"});
  module.Set<uint8_t>(Plane::kScales, "F8_E4M3", {E4M3(1), 0x7f, 1, 1});
  ExpectError(module.Groups().status(), {"m.weight_scale", "nan"});
}

// Some writers have them; they say nothing new, or contradict.
TEST(Unpack, ZeroPointsOfASymmetricWeightAreTheMiddle) {
  TestModule module(With(FormatRow("pack-quantized"), 1, 8), {8, 8});
  module.Set<float>(Plane::kScales, "F32", std::vector<float>(8, 1.0f));
  const std::vector<uint8_t> middle(8, 8);
  for (const uint32_t packed : {0u, 0x88888888u}) {
    module.Set<uint32_t>(Plane::kZeroPoints, "I32", {packed});
    EXPECT_EQ(module.Groups()->zero_points, middle);
  }
  module.Set<uint32_t>(Plane::kZeroPoints, "I32", {0x88888878u});
  ExpectError(module.Groups().status(), {"m.weight_zero_point", "zero point of 7"});
  module.Set<int8_t>(Plane::kZeroPoints, "I8", std::vector<int8_t>(8, 0));
  EXPECT_EQ(module.Groups()->zero_points, middle);
  module.Set<int8_t>(Plane::kZeroPoints, "I8", {1});
  ExpectError(module.Groups().status(), {"m.weight_zero_point", "symmetric"});
}

TEST(Unpack, StaticScalesOfActivationsAreAboveZero) {
  WeightScheme scheme = FormatRow("fp8-tensor");
  scheme.activations = ActivationScheme::kE4M3PerTensor;
  TestModule module(scheme, {1, 1});
  module.Set<float>(Plane::kScales, "F32", {1}).Set<float>(Plane::kInputScale, "F32", {0.25f});
  EXPECT_EQ(module.Groups()->input_scale, 0.25f);
  module.Set<float>(Plane::kInputScale, "F32", {});  // no gemm needs it
  EXPECT_TRUE(module.Groups().ok());
  module.Set<float>(Plane::kInputScale, "F32", {0});
  ExpectError(module.Groups().status(), {"input_scale", "above 0"});
}

TEST(Unpack, TheShapeOfPackedRowsIsTheModels) {
  TestModule module(With(FormatRow("pack-quantized"), 1, 0), {1, 8});
  module.Set<float>(Plane::kScales, "F32", {1}).Set<int64_t>(Plane::kShape, "I64", {1, 8});
  EXPECT_TRUE(module.Groups().ok());
  module.Set<int64_t>(Plane::kShape, "I64", {8, 1});
  ExpectError(module.Groups().status(), {"m.weight_shape", "8 x 1", "1 x 8"});
}

// Any rectangle of any part of the values is the same as in the whole.
void ExpectPieces(const WeightScheme& scheme, const ModuleShape& shape) {
  const int64_t all_rows = NumStoredRows(scheme, shape);
  const int64_t row_bytes = StoredRowBytes(scheme, shape);
  std::vector<uint8_t> bytes(all_rows * row_bytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = (i * 37 + i / 7) % 120;
  const PlaneBytes all = {"m", "", bytes};
  std::vector<uint8_t> whole(shape.rows * shape.columns);
  ASSERT_TRUE(UnpackCodes(scheme, shape, {0, all_rows}, all, {0, shape.rows, 0, shape.columns},
                          whole.data())
                  .ok());
  for (const int64_t first : {int64_t{0}, int64_t{1}, all_rows - 1}) {
    const StoredRows stored = {first, std::min<int64_t>(2, all_rows - first)};
    WeightRange range = RangeOf(scheme, shape, stored);
    const PlaneBytes piece = {"m", "",
                              all.data.subspan(first * row_bytes, stored.count * row_bytes)};
    for (int cut = 0; cut < 3 && range.num_rows > 1 && range.num_columns > 1; ++cut) {
      std::vector<uint8_t> codes(range.num_rows * range.num_columns);
      ASSERT_TRUE(UnpackCodes(scheme, shape, stored, piece, range, codes.data()).ok());
      for (int64_t i = 0; i < range.num_rows; ++i) {
        for (int64_t j = 0; j < range.num_columns; ++j) {
          ASSERT_EQ(codes[i * range.num_columns + j],
                    whole[(range.first_row + i) * shape.columns + range.first_column + j]);
        }
      }
      range.first_column += 1;
      range.num_columns -= cut + 1;
      range.first_row += cut;
      range.num_rows -= cut;
    }
  }
}

TEST(Unpack, PiecesAreThoseOfTheWhole) {
  ExpectPieces(FormatRow("fp8-block"), {5, 130});
  ExpectPieces(FormatRow("int-quantized"), {5, 13});
  ExpectPieces(FormatRow("mxfp4-pack-quantized"), {5, 64});
  ExpectPieces(With(FormatRow("gptq"), 1, 8), {16, 24});
  ExpectPieces(With(FormatRow("awq"), 1, 0), {24, 70});
  for (int bits = 2; bits <= 8; ++bits) {
    WeightScheme scheme = With(FormatRow("pack-quantized"), 1, 0);
    scheme.bits = bits;
    ExpectPieces(scheme, {5, 77});
  }
}

}  // namespace
}  // namespace quire
