// Rotary embedding, head norms and the write to the paged cache.
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/kernels/rope_fixture.h"

namespace quire {
namespace {

// Head sizes that fill lanes, that leave some idle, and a rotary part that no 16-byte access fits.
TEST_P(RopeTest, MatchesReference) {
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (auto [head_dim, num_pairs] : {std::pair(64, 32),
                                         {128, 64},
                                         {256, 128},
                                         {96, 48},
                                         {80, 16},
                                         {80, 10},
                                         {8, 4},
                                         {64, 0}}) {
        for (int64_t num_tokens : {1, 7, 129}) {
          Check({.dtype = dtype,
                 .kv_dtype = dtype,
                 .head_dim = head_dim,
                 .num_pairs = num_pairs,
                 .q_norm = norm,
                 .k_norm = norm,
                 .num_tokens = num_tokens});
        }
      }
    }
  }
}

// Elements without a partner lie between and behind the pairs. The last but one is what Gemma 4's
// heads of 512 elements ask for.
TEST_P(RopeTest, PairsApart) {
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (auto [head_dim, num_pairs, pair_distance] : {std::tuple(64, 8, 32),
                                                        {64, 16, 24},
                                                        {128, 32, 96},
                                                        {256, 32, 128},
                                                        {80, 10, 33},
                                                        {80, 3, 5},
                                                        {40, 1, 39},
                                                        {512, 64, 256},
                                                        {256, 0, 128}}) {
        Check({.dtype = dtype,
               .kv_dtype = dtype,
               .head_dim = head_dim,
               .num_pairs = num_pairs,
               .pair_distance = pair_distance,
               .q_norm = norm,
               .k_norm = norm,
               .num_tokens = 7});
      }
    }
  }
}

// As GLM-4 and Cohere 2 have them, of a part of a head or of all of it.
TEST_P(RopeTest, PairsOfNeighbours) {
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (auto [head_dim, num_pairs] : {std::pair(64, 32),
                                         {128, 32},
                                         {128, 64},
                                         {256, 64},
                                         {80, 16},
                                         {80, 10},
                                         {80, 13},
                                         {16, 2},
                                         {8, 1},
                                         {64, 0}}) {
        for (RowForm row_form : {RowForm::kPacked, RowForm::kGated}) {
          Check({.dtype = dtype,
                 .kv_dtype = dtype,
                 .head_dim = head_dim,
                 .num_pairs = num_pairs,
                 .pair_distance = 1,
                 .q_norm = norm,
                 .k_norm = norm,
                 .row_form = row_form,
                 .num_tokens = 7});
        }
      }
    }
  }
}

// As Ministral 3 has it: with rotation and without, after norms, and of no keys and values.
TEST_P(RopeTest, QueriesAreScaledByPosition) {
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (auto [num_pairs, rotate] : {std::pair(32, true), {10, true}, {32, false}}) {
        Check({.dtype = dtype,
               .kv_dtype = dtype,
               .num_pairs = num_pairs,
               .q_norm = norm,
               .k_norm = norm,
               .rotate_q = rotate,
               .rotate_k = rotate,
               .scale_q = true,
               .num_tokens = 7});
      }
    }
  }
}

TEST_P(RopeTest, HeadsAnywhereInARow) {
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (int32_t num_pairs : {8, 10}) {  // with and without 16-byte accesses
        Check({.dtype = dtype,
               .kv_dtype = dtype,
               .num_pairs = num_pairs,
               .q_norm = norm,
               .k_norm = norm,
               .row_form = RowForm::kGated,
               .num_tokens = 7});
      }
    }
  }
}

// As Gemma 4 has it: values are the keys' projection, with a norm of their own and not rotated.
TEST_P(RopeTest, ValuesOfWhatKeysAreMadeOf) {
  for (DType dtype : activation_dtypes()) {
    for (int32_t num_pairs : {32, 10}) {
      Check({.dtype = dtype,
             .kv_dtype = dtype,
             .num_pairs = num_pairs,
             .q_norm = HeadNormKind::kWeight,
             .k_norm = HeadNormKind::kWeight,
             .v_norm = HeadNormKind::kPlain,
             .row_form = RowForm::kValueIsKey,
             .num_tokens = 7});
    }
  }
}

TEST_P(RopeTest, EachKindOfHeadsIsNormedForItself) {
  constexpr HeadNormKind kKinds[] = {HeadNormKind::kNone, HeadNormKind::kPlain,
                                     HeadNormKind::kWeight};
  for (HeadNormKind q_norm : kKinds) {
    for (HeadNormKind k_norm : kKinds) {
      for (HeadNormKind v_norm : kKinds) {
        Check({.q_norm = q_norm, .k_norm = k_norm, .v_norm = v_norm, .num_tokens = 3});
      }
    }
  }
}

TEST_P(RopeTest, EachKindOfHeadsIsRotatedForItself) {
  for (int kinds = 0; kinds < 8; ++kinds) {
    SCOPED_TRACE(kinds);
    Check({.rotate_q = (kinds & 1) != 0,
           .rotate_k = (kinds & 2) != 0,
           .rotate_v = (kinds & 4) != 0,
           .num_tokens = 3});
  }
}

TEST_P(RopeTest, QueriesAloneLeaveTheCacheAsItIs) {
  Check({.q_norm = HeadNormKind::kWeight, .stores_kv = false, .num_tokens = 7});
}

TEST_P(RopeTest, CacheOfAnotherDTypeAndLayout) {
  Check({.dtype = DType::kBF16, .kv_dtype = DType::kF32, .hnd = true, .num_tokens = 33});
  Check({.dtype = DType::kF32, .kv_dtype = DType::kBF16, .hnd = true, .num_tokens = 33});
}

TEST_P(RopeTest, QuantisesToEightBits) {
  for (const DType dtype : activation_dtypes()) {
    for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
      for (const int64_t num_tokens : {1, 33}) {
        for (const int32_t head_dim : {64, 80, 128}) {
          Check({.dtype = dtype,
                 .kv_dtype = kv_dtype,
                 .head_dim = head_dim,
                 .pair_distance = head_dim == 80 ? 1 : 0,
                 .k_norm = HeadNormKind::kWeight,
                 .scale_q = head_dim == 80,
                 .hnd = num_tokens > 1,
                 .num_tokens = num_tokens});
        }
      }
    }
  }
}

// A number that is too large becomes the largest number there is, and NaN stays NaN.
TEST_P(RopeTest, QuantisingSaturatesAndKeepsNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const RopeCase c = {.kv_dtype = kv_dtype, .head_dim = 8, .num_pairs = 4};
    RopeInputs in = MakeInputs(c);
    const float values[8] = {kInfinity, -kInfinity, kNan, 3e38f, -3e38f, 1e-30f, -0.0f, 0.35f};
    // The last of a token's heads is the second KV head's value, which nothing rotates.
    std::copy(std::begin(values), std::end(values), in.x.end() - 8);
    const KvCacheView view = MakeView(c);
    const RopeResult<float> result = Run(c, in);
    const int64_t slot = in.slots[0];
    const float* stored = result.v.data() + slot / kBlockSize * view.k.block_stride +
                          slot % kBlockSize * view.k.token_stride + view.k.head_stride;
    const float max = kv_dtype == DType::kF8E4M3 ? 448 : 57344;
    EXPECT_EQ(stored[0], max);
    EXPECT_EQ(stored[1], -max);
    EXPECT_TRUE(std::isnan(stored[2]));
    EXPECT_EQ(stored[3], max);
    EXPECT_EQ(stored[4], -max);
    EXPECT_EQ(stored[5], 0);
    EXPECT_EQ(stored[6], 0);
    EXPECT_EQ(stored[7], RoundTo(kv_dtype, {0.35f / RopeCase::VScale(1)})[0]);
  }
}

TEST_P(RopeTest, AnyNumberOfHeads) {
  for (auto [num_q_heads, num_kv_heads] : {std::pair(1, 1), {7, 1}, {14, 2}, {6, 3}, {64, 8}}) {
    Check({.q_norm = HeadNormKind::kWeight,
           .k_norm = HeadNormKind::kWeight,
           .num_q_heads = num_q_heads,
           .num_kv_heads = num_kv_heads,
           .num_tokens = 3});
  }
}

TEST_P(RopeTest, NormWeightsOfAnotherDType) {
  Check({.dtype = DType::kBF16,
         .kv_dtype = DType::kBF16,
         .q_norm = HeadNormKind::kWeight,
         .k_norm = HeadNormKind::kWeight,
         .norm_dtype = DType::kF32,
         .num_tokens = 3});
}

// A GPU gives a thread more heads where tokens are many. Bit for bit what it gives for a few, so
// that a token does not depend on its batch.
TEST_P(RopeTest, ManyTokens) {
  const int64_t num_tokens = GetParam().kind == DeviceKind::kCuda ? 1801 : 101;
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (RowForm row_form : {RowForm::kPacked, RowForm::kGated}) {
        RopeCase c = {.dtype = dtype,
                      .kv_dtype = dtype,
                      .pair_distance = row_form == RowForm::kGated ? 1 : 0,
                      .q_norm = norm,
                      .k_norm = norm,
                      .v_norm = norm == HeadNormKind::kNone ? norm : HeadNormKind::kPlain,
                      .scale_q = row_form == RowForm::kGated,
                      .row_form = row_form,
                      .num_q_heads = 33,
                      .num_kv_heads = 7,
                      .num_tokens = num_tokens};
        Check(c);
        const std::vector<float> many = Run(c, MakeInputs(c)).q;
        c.num_tokens = 2;
        const std::vector<float> few = Run(c, MakeInputs(c)).q;
        for (size_t i = 0; i < few.size(); ++i) ASSERT_EQ(few[i], many[i]) << "element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RopeTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
