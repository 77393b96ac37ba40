// Attention over caches of 8 bits against the reference: scales, prompts, sums that need many bits,
// queries beyond float16; results in e4m3, and queries.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/attention_reference_test.h"

namespace quire {
namespace {

// Every type of query that goes with an 8-bit cache, whose scales differ by head.
TEST_P(AttentionReferenceTest, Float8Caches) {
  for (const DType query_dtype : attention().capabilities().query_dtypes) {
    for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
      for (const KvOrder order : {KvOrder::kNhd, KvOrder::kHnd}) {
        SCOPED_TRACE(testing::Message() << DTypeName(query_dtype) << "/" << DTypeName(kv_dtype)
                                        << " order " << static_cast<int>(order));
        AttentionGeometry geometry = Geometry(4, 2, 64, query_dtype);
        geometry.kv_dtype = kv_dtype;
        geometry.block_size = order == KvOrder::kHnd ? 16 : 32;
        ExpectMatchesReference(MakePagedBatch(geometry, kMixed, order, 31, 32));
        geometry.sliding_window = 100;
        ExpectMatchesReference(MakePagedBatch(geometry, kMixed, order, 31, 32));
      }
    }
  }
}

TEST_P(AttentionReferenceTest, Float8CachesHeadDimsAndGroups) {
  for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (const int32_t head_dim : {16, 80, 128, 256, 272, 512}) {
      for (const auto& [q_heads, kv_heads] : {std::pair(1, 1), {14, 2}, {40, 2}}) {
        SCOPED_TRACE(testing::Message() << DTypeName(kv_dtype) << " dim " << head_dim << " heads "
                                        << q_heads << "/" << kv_heads);
        AttentionGeometry geometry = Geometry(q_heads, kv_heads, head_dim, DType::kBF16);
        geometry.kv_dtype = kv_dtype;
        ExpectMatchesReference(MakePagedBatch(
            geometry, {{1, 33}, {1, 197}, {1, 1300}, {7, 7}, {20, 171}}, KvOrder::kHnd, 33, 34));
      }
    }
  }
}

// NaN beyond a sequence's end, in K and in V, reaches nothing.
TEST_P(AttentionReferenceTest, Float8PromptsReadNothingBeyondTheirEnd) {
  for (const int32_t head_dim : {64, 128, 256, 512}) {
    for (const int32_t length : {1, 15, 33, 66, 127, 129, 200}) {
      SCOPED_TRACE(testing::Message() << "dim " << head_dim << " length " << length);
      AttentionGeometry geometry = Geometry(4, 2, head_dim, DType::kBF16);
      geometry.kv_dtype = DType::kF8E4M3;
      if (!Serves(geometry)) continue;
      PagedBatch batch = MakePagedBatch(geometry, {{length, length}}, KvOrder::kHnd, 45, 46);
      const PagedBatch clean = batch;
      const BlockId last = batch.block_tables[batch.seq_rows[0] * batch.max_blocks_per_seq +
                                              (length - 1) / geometry.block_size];
      for (int32_t head = 0; head < geometry.num_kv_heads; ++head) {
        for (int32_t token = (length - 1) % geometry.block_size + 1; token < geometry.block_size;
             ++token) {
          const int64_t at = last * batch.view.k.block_stride + head * batch.view.k.head_stride +
                             token * batch.view.k.token_stride;
          std::fill_n(batch.k.begin() + at, head_dim, NAN);
          std::fill_n(batch.v.begin() + at, head_dim, NAN);
        }
      }
      EXPECT_EQ(Run(batch).out, Run(clean).out);
    }
  }
}

TEST_P(AttentionReferenceTest, Float8CacheWithSoftCap) {
  AttentionGeometry geometry = Geometry(8, 2, 128, DType::kBF16);
  geometry.kv_dtype = DType::kF8E4M3;
  geometry.soft_cap = 5;
  ExpectMatchesReference(MakePagedBatch(geometry, kMixed, KvOrder::kHnd, 35, 36));
}

// All keys weigh the same; the values of the first half are 1 and those of the second half -1, but
// for a small one in place of a 1 and a 0 in place of a -1. Its sum, small beside sums on the way,
// is exact in float32 in any order, and gone where sums have 14 bits, or are float16.
TEST_P(AttentionReferenceTest, Float8NeedleAmong65536Tokens) {
  constexpr int32_t kTokens = 65536;
  for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (const auto& [query_len, head_dim] :  // decodes, drafts, prompts
         {std::pair(1, 64), {3, 64}, {4, 64}, {4, 128}}) {
      SCOPED_TRACE(testing::Message()
                   << DTypeName(kv_dtype) << " queries " << query_len << " dim " << head_dim);
      if (head_dim > 64 && !IsTrtllm()) continue;  // the others sum as they do with smaller heads
      AttentionGeometry geometry = Geometry(2, 1, IsTrtllm() ? head_dim : 16, DType::kBF16);
      geometry.kv_dtype = kv_dtype;
      PagedBatch batch = MakePagedBatch(geometry, {{query_len, kTokens}}, KvOrder::kHnd, 41, 42);
      if (query_len < 4) batch.decode_query_len = query_len;
      batch.v_scales = {1.0f};
      const BlockId* blocks =
          batch.block_tables.data() + batch.seq_rows[0] * batch.max_blocks_per_seq;
      for (int32_t token = 0; token < kTokens; ++token) {
        const int64_t at = blocks[token / geometry.block_size] * batch.view.k.block_stride +
                           token % geometry.block_size * batch.view.k.token_stride;
        for (int32_t i = 0; i < geometry.k_head_dim; ++i) {
          batch.k[at + i] = 0;
          batch.v[at + i] = token == 12345 + i    ? 0x1p-6f
                            : token == 54321      ? 0.0f
                            : token < kTokens / 2 ? 1.0f
                                                  : -1.0f;
        }
      }
      const AttentionOutput output = Run(batch);
      for (int32_t query = 0; query < query_len; ++query) {
        const int32_t unseen = query_len - 1 - query;  // each -1
        const double expected = (0x1p-6 + unseen) / (kTokens - unseen);
        for (int32_t i = 0; i < geometry.num_q_heads * geometry.k_head_dim; ++i) {
          ASSERT_NEAR(output.out[query * geometry.num_q_heads * geometry.k_head_dim + i], expected,
                      0x1p-8 * expected)
              << "query " << query << " element " << i;
        }
      }
    }
  }
}

// Queries that float16 cannot hold as they are.
TEST_P(AttentionReferenceTest, Float8CachesOfLargeAndSmallQueries) {
  for (const float factor : {0x1p40f, 0x1p-40f}) {
    for (const int32_t head_dim : {64, 128, 256}) {
      SCOPED_TRACE(testing::Message() << "times " << factor << " dim " << head_dim);
      AttentionGeometry geometry = Geometry(8, 2, head_dim, DType::kBF16);
      geometry.kv_dtype = DType::kF8E4M3;
      geometry.scale /= factor;
      PagedBatch batch = MakePagedBatch(geometry, kMixed, KvOrder::kHnd, 43, 44);
      for (float& value : batch.q) value *= factor;
      ExpectMatchesReference(batch);
    }
  }
}

// Of keys that are cut, with sinks, of every type of query and cache.
TEST_P(AttentionReferenceTest, Float8Output) {
  const std::vector<SeqShape> seqs = {{1, 1},     {1, 65}, {1, 2100}, {1, 0},
                                      {33, 1100}, {7, 7},  {129, 300}};
  for (const DType query_dtype : attention().capabilities().query_dtypes) {
    const DType other = IsFloat8(query_dtype) ? DType::kF8E5M2 : query_dtype;
    for (const DType kv_dtype : {other, DType::kF8E4M3}) {
      for (const int32_t head_dim : {64, 80, 128, 256}) {
        SCOPED_TRACE(testing::Message() << DTypeName(query_dtype) << "/" << DTypeName(kv_dtype)
                                        << " dim " << head_dim);
        AttentionGeometry geometry = Geometry(4, 2, head_dim, query_dtype);
        geometry.kv_dtype = kv_dtype;
        geometry.out_dtype = DType::kF8E4M3;
        geometry.sinks = head_dim >= 128;
        PagedBatch batch = MakePagedBatch(geometry, seqs, KvOrder::kHnd, 47, 48);
        if (head_dim != 64) batch.out_scale = {0.013f};
        ExpectMatchesReference(batch);
      }
    }
  }
}

// The same rounding as an 8-bit cache's, once: a query that sees one key has its value as a result.
TEST_P(AttentionReferenceTest, Float8OutputRoundsToNearestEvenAndSaturates) {
  constexpr float kScale = 4;
  const std::vector<float> results = {1.0f,     1.0625f,  1.1875f,  -1.1875f, 7.25f,    447.0f,
                                      448.0f,   464.0f,   500.0f,   -464.0f,  12000.0f, -12000.0f,
                                      0x1p-10f, 0x3p-10f, 0x1p-11f, 0.0f,     NAN};
  for (const DType dtype : activation_dtypes()) {
    for (const int32_t query_len :
         {1, 2}) {  // a decode, and a prompt whose second query is ignored
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " queries " << query_len);
      AttentionGeometry geometry = Geometry(2, 2, 64, dtype);
      geometry.out_dtype = DType::kF8E4M3;
      if (!Serves(geometry)) continue;
      PagedBatch batch = MakePagedBatch(geometry, {{query_len, query_len}}, KvOrder::kHnd, 49, 50);
      batch.out_scale = {kScale};
      batch.q.assign(batch.q.size(), 0.0f);  // its prob is 1, without any rounding
      const BlockId block = batch.block_tables[batch.seq_rows[0] * batch.max_blocks_per_seq];
      std::vector<float> expected;
      for (int32_t head = 0; head < 2; ++head) {
        for (int32_t i = 0; i < 64; ++i) {
          const float value =
              RoundTo(dtype, {results[(i + head) % results.size()] * kScale}).front();
          batch.v[block * batch.view.k.block_stride + head * batch.view.k.head_stride + i] = value;
          expected.push_back(static_cast<float>(Float8E4M3(value / kScale)));
        }
      }
      const AttentionOutput output = Run(batch);
      for (size_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i])) {
          EXPECT_TRUE(std::isnan(output.out[i])) << "element " << i;
        } else {
          EXPECT_EQ(output.out[i], expected[i]) << "element " << i;
        }
      }
    }
  }
}

// Decodes, drafts and prompts whose queries are e4m3, with a scale and without; results of every
// type.
TEST_P(AttentionReferenceTest, Float8Queries) {
  if (!TakesFloat8Queries()) GTEST_SKIP() << "this path has none";
  std::vector<DType> out_dtypes = half_dtypes();
  out_dtypes.push_back(DType::kF8E4M3);
  for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (const DType out_dtype : out_dtypes) {
      for (const int32_t head_dim : {64, 128, 256}) {
        SCOPED_TRACE(testing::Message() << DTypeName(kv_dtype) << " out " << DTypeName(out_dtype)
                                        << " dim " << head_dim);
        AttentionGeometry geometry = Geometry(8, 2, head_dim, DType::kF8E4M3);
        geometry.kv_dtype = kv_dtype;
        geometry.out_dtype = out_dtype;
        ASSERT_EQ(WhyUnsupported(attention().capabilities(), geometry), "");
        PagedBatch batch = MakePagedBatch(geometry, kMixed, KvOrder::kHnd, 51, 52);
        if (IsFloat8(out_dtype)) batch.out_scale = {0.013f};
        ExpectMatchesReference(batch);
        batch.q_scale.clear();
        ExpectMatchesReference(batch);
        geometry.sliding_window = 100;
        geometry.sinks = true;
        geometry.soft_cap = 5;
        batch = MakePagedBatch(geometry, {{4, 300}, {4, 70}, {4, 0}, {50, 120}, {130, 700}},
                               KvOrder::kNhd, 53, 54);
        batch.decode_query_len = 4;
        ExpectMatchesReference(batch);
      }
    }
  }
}

// The same numbers in bfloat16 give the same bits: e4m3 is nowhere rounded, and a scale that is a
// power of two neither.
TEST_P(AttentionReferenceTest, Float8QueriesGiveTheBitsOfTheSameNumbersInBfloat16) {
  if (!TakesFloat8Queries()) GTEST_SKIP() << "this path has none";
  for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (const int32_t head_dim : {64, 128, 256}) {
      SCOPED_TRACE(testing::Message() << DTypeName(kv_dtype) << " dim " << head_dim);
      AttentionGeometry geometry = Geometry(8, 2, head_dim, DType::kF8E4M3);
      geometry.kv_dtype = kv_dtype;
      PagedBatch batch = MakePagedBatch(geometry, kMixed, KvOrder::kHnd, 55, 56);
      batch.q_scale = {0.25f};
      PagedBatch wide = batch;
      wide.geometry.query_dtype = DType::kBF16;
      wide.q = Queries(batch);
      wide.q_scale.clear();
      const AttentionOutput output = Run(batch), expected = Run(wide);
      EXPECT_EQ(output.out, expected.out);
      EXPECT_EQ(output.lse, expected.lse);
    }
  }
}

TEST_P(AttentionReferenceTest, TypesThatDoNotGoTogetherAreRefused) {
  const auto why = [](const AttentionCapabilities& path, DType query, DType kv, DType out) {
    AttentionGeometry geometry = Geometry(4, 2, 64, query);
    geometry.kv_dtype = kv;
    geometry.out_dtype = out;
    return WhyUnsupported(path, geometry);
  };
  constexpr DType kBF16 = DType::kBF16, kE4M3 = DType::kF8E4M3;
  AttentionCapabilities path = attention().capabilities();
  EXPECT_EQ(why(path, kBF16, kBF16, kBF16), "");
  EXPECT_EQ(why(path, kBF16, kBF16, kE4M3), "");
  EXPECT_EQ(why(path, kBF16, kE4M3, DType::kF16),
            "does not give out_dtype float16 for query_dtype bfloat16");
  EXPECT_EQ(why(path, DType::kF8E5M2, kE4M3, kBF16), "does not take query_dtype fp8_e5m2");
  if (TakesFloat8Queries()) {
    EXPECT_EQ(why(path, kE4M3, kE4M3, kBF16), "");
    EXPECT_EQ(why(path, kE4M3, DType::kF8E5M2, kE4M3), "");
    EXPECT_EQ(why(path, kE4M3, kBF16, kBF16),
              "does not take query_dtype fp8_e4m3 with kv_dtype bfloat16");
    EXPECT_EQ(why(path, kE4M3, kE4M3, DType::kF32),
              "does not give out_dtype float32 for query_dtype fp8_e4m3");
    EXPECT_EQ(why(path, kE4M3, kE4M3, DType::kF8E5M2),
              "does not give out_dtype fp8_e5m2 for query_dtype fp8_e4m3");
  } else {
    EXPECT_EQ(why(path, kE4M3, kE4M3, kBF16), "does not take query_dtype fp8_e4m3");
  }
  path.out_dtypes = {kBF16};
  EXPECT_EQ(why(path, kBF16, kBF16, kE4M3),
            "does not give out_dtype fp8_e4m3 for query_dtype bfloat16");
  AttentionBackend* classic = backend().attention(AttentionPath::kClassic);
  if (classic == nullptr) return;
  EXPECT_EQ(why(classic->capabilities(), kBF16, kBF16, kE4M3),
            "does not give out_dtype fp8_e4m3 for query_dtype bfloat16");
  EXPECT_EQ(why(classic->capabilities(), kE4M3, kE4M3, kBF16),
            "does not take query_dtype fp8_e4m3");
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionReferenceTest,
                         testing::ValuesIn(WithTrtllm(AttentionTargets())), TargetName);

}  // namespace
}  // namespace quire
