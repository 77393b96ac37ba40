// Attention over caches of 8 bits against the reference: scales, prompts, sums that need many bits,
// queries beyond float16; which types go together.
#include <algorithm>
#include <cmath>
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

// All keys weigh the same. The values of the first half are 1 and those of the second half -1,
// except a small one in place of a 1 and a 0 in place of a -1. Its sum, small beside sums on the
// way, is exact in float32 in any order, and gone where sums have 14 bits, or are float16.
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

TEST_P(AttentionReferenceTest, TypesThatDoNotGoTogetherAreRefused) {
  const auto why = [](const AttentionCapabilities& path, DType query, DType kv) {
    AttentionGeometry geometry = Geometry(4, 2, 64, query);
    geometry.kv_dtype = kv;
    return WhyUnsupported(path, geometry);
  };
  constexpr DType kBF16 = DType::kBF16, kF16 = DType::kF16, kE4M3 = DType::kF8E4M3;
  AttentionCapabilities path = attention().capabilities();
  EXPECT_EQ(why(path, kBF16, kBF16), "");
  EXPECT_EQ(why(path, kBF16, kE4M3), "");
  EXPECT_EQ(why(path, kE4M3, kE4M3), "does not take query_dtype fp8_e4m3");
  path.query_dtypes = {kBF16, kF16};
  path.kv_dtypes = {kBF16, kF16, kE4M3};
  EXPECT_EQ(why(path, kF16, kF16), "");
  EXPECT_EQ(why(path, kF16, kE4M3), "");
  EXPECT_EQ(why(path, kF16, kBF16), "does not take query_dtype float16 with kv_dtype bfloat16");
  EXPECT_EQ(why(path, kBF16, kF16), "does not take query_dtype bfloat16 with kv_dtype float16");
  EXPECT_EQ(why(path, kBF16, DType::kF8E5M2), "does not take kv_dtype fp8_e5m2");
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionReferenceTest,
                         testing::ValuesIn(WithTrtllm(AttentionTargets())), TargetName);

}  // namespace
}  // namespace quire
