// Every path's attention against the reference, decodes and prompts together.
#include "kernels/attention.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/attention_reference_test.h"
#include "tests/kernels/shared_blocks.h"

namespace quire {
namespace {

// Levels of shared prefixes are computed with these: keys that begin at a later block of a row, and
// queries that all see all keys.
TEST_P(AttentionReferenceTest, LaterFirstBlocks) {
  for (const DType kv_dtype : {AnyDType(), DType::kBF16, DType::kF8E4M3}) {
    AttentionGeometry geometry =
        Geometry(8, 2, 64, kv_dtype == DType::kF32 ? kv_dtype : DType::kBF16);
    geometry.kv_dtype = kv_dtype;
    PagedBatch batch = MakePagedBatch(
        geometry, {{1, 70}, {1, 600}, {1, 1300}, {1, 33}, {40, 200}, {9, 41}, {130, 700}},
        KvOrder::kHnd, 61, 62);
    SkipBlocks(batch, {1, 0, 70, 2, 3, 2, 17});
    ExpectMatchesReference(batch);
  }
}

TEST_P(AttentionReferenceTest, QueriesThatSeeAllKeys) {
  for (const int32_t head_dim : {64, 128}) {
    for (const DType kv_dtype : {AnyDType(), DType::kBF16, DType::kF8E4M3}) {
      AttentionGeometry geometry =
          Geometry(8, 2, head_dim, kv_dtype == DType::kF32 ? kv_dtype : DType::kBF16);
      geometry.kv_dtype = kv_dtype;
      PagedBatch batch =
          MakePagedBatch(geometry, {{1, 70}, {1, 1}, {40, 16}, {70, 144}, {9, 0}, {30, 1300}},
                         KvOrder::kHnd, 63, 64);
      batch.causal = false;
      ExpectMatchesReference(batch);
    }
  }
}

TEST_P(AttentionReferenceTest, HeadDimsAndGroups) {
  for (int32_t head_dim : {8, 24, 64, 80, 128, 256}) {
    for (auto [q_heads, kv_heads] : {std::pair(2, 2), {4, 2}, {4, 1}, {14, 2}}) {
      SCOPED_TRACE(testing::Message()
                   << "dim " << head_dim << " heads " << q_heads << "/" << kv_heads);
      ExpectMatchesReference(MakePagedBatch(Geometry(q_heads, kv_heads, head_dim),
                                            {{1, 33}, {1, 97}, {7, 7}, {40, 71}}, KvOrder::kNhd, 1,
                                            2));
    }
  }
}

TEST_P(AttentionReferenceTest, DTypesBlockSizesAndLayouts) {
  for (auto [query_dtype, kv_dtype] : {std::pair(DType::kF32, DType::kF32),
                                       {DType::kBF16, DType::kBF16},
                                       {DType::kF32, DType::kBF16},
                                       {DType::kBF16, DType::kF32}}) {
    for (int32_t block_size : {16, 32, 64}) {
      for (KvOrder order : {KvOrder::kNhd, KvOrder::kHnd}) {
        SCOPED_TRACE(testing::Message()
                     << DTypeName(query_dtype) << "/" << DTypeName(kv_dtype) << " block "
                     << block_size << " order " << static_cast<int>(order));
        AttentionGeometry geometry = Geometry(4, 2, 64);
        geometry.query_dtype = query_dtype;
        geometry.kv_dtype = kv_dtype;
        geometry.block_size = block_size;
        ExpectMatchesReference(MakePagedBatch(geometry, kMixed, order, 3, 4));
      }
    }
  }
}

TEST_P(AttentionReferenceTest, SlidingWindow) {
  for (int64_t window : {1, 5, 64, 100, 1000}) {
    SCOPED_TRACE(window);
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      AttentionGeometry geometry = Geometry(4, 2, 64, dtype);
      geometry.sliding_window = window;
      ExpectMatchesReference(MakePagedBatch(geometry, kMixed, KvOrder::kNhd, 5, 6));
      // The last block has only the last keys, with slots behind them that nothing was written to.
      ExpectMatchesReference(MakePagedBatch(geometry, {{1, 30}}, KvOrder::kNhd, 5, 6));
    }
  }
}

TEST_P(AttentionReferenceTest, Bfloat16HeadDimsAndGroups) {
  std::vector<std::pair<int32_t, int32_t>> heads = {{2, 2}, {4, 1}};
  if (GetParam().kind == DeviceKind::kCpu) heads.insert(heads.end(), {{40, 1}, {64, 1}});
  for (int32_t head_dim : {32, 96, 224}) {
    for (auto [q_heads, kv_heads] : heads) {
      SCOPED_TRACE(testing::Message()
                   << "dim " << head_dim << " heads " << q_heads << "/" << kv_heads);
      ExpectMatchesReference(MakePagedBatch(Geometry(q_heads, kv_heads, head_dim, DType::kBF16),
                                            {{1, 33}, {1, 97}, {7, 7}, {10, 71}}, KvOrder::kNhd, 1,
                                            2));
    }
  }
}

TEST_P(AttentionReferenceTest, HeadsOfUpTo512) {
  for (const int32_t head_dim : {264, 320, 512}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const DType kv_dtype : {dtype, DType::kF8E4M3}) {
        for (const int32_t q_heads : {2, 48}) {
          SCOPED_TRACE(testing::Message() << "dim " << head_dim << " " << DTypeName(dtype) << "/"
                                          << DTypeName(kv_dtype) << " heads " << q_heads);
          AttentionGeometry geometry = Geometry(q_heads, 2, head_dim, dtype);
          geometry.kv_dtype = kv_dtype;
          ExpectMatchesReference(
              MakePagedBatch(geometry, {{1, 1100}, {1, 3}, {40, 101}}, KvOrder::kHnd, 9, 10));
        }
      }
    }
  }
}

// A sliding-window cache gives back blocks that nobody sees any more: their entries are -1.
TEST_P(AttentionReferenceTest, BlocksBehindTheWindowAreNotRead) {
  AttentionGeometry geometry = Geometry(2, 2, 64, AnyDType());
  geometry.sliding_window = 40;
  PagedBatch batch = MakePagedBatch(geometry, {{1, 1500}, {20, 220}}, KvOrder::kNhd, 7, 8);
  const AttentionOutput before = Run(batch);
  for (auto [seq, first_visible] : {std::pair(0, 1460), {1, 161}}) {
    const auto row = batch.block_tables.begin() + batch.seq_rows[seq] * batch.max_blocks_per_seq;
    std::fill_n(row, first_visible / geometry.block_size, kNoBlock);
  }
  const AttentionOutput after = Run(batch);
  EXPECT_EQ(before.out, after.out);
  EXPECT_EQ(before.lse, after.lse);
}

TEST_P(AttentionReferenceTest, SoftCap) {
  for (float cap : {1.0f, 30.0f}) {
    SCOPED_TRACE(cap);
    AttentionGeometry geometry = Geometry(4, 2, 64);
    geometry.soft_cap = cap;
    geometry.scale *= 4;
    ExpectMatchesReference(MakePagedBatch(geometry, kMixed, KvOrder::kNhd, 9, 10), 1e-4);
  }
}

TEST_P(AttentionReferenceTest, ContextsOfSeveralSplits) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(DTypeName(dtype));
    ExpectMatchesReference(MakePagedBatch(Geometry(4, 1, 64, dtype),
                                          {{1, 1024}, {1, 1025}, {1, 5000}, {70, 2100}},
                                          KvOrder::kNhd, 11, 12));
  }
}

// The types, head sizes and groups that tensor cores serve, with contexts that are cut and with
// windows; on the CPU those of them that it has.
TEST_P(AttentionReferenceTest, TensorCoreTypesHeadDimsAndGroups) {
  ExpectTensorCoresMatchReference({{64, 2, 2, 16, KvOrder::kHnd, 0},
                                   {64, 7, 1, 64, KvOrder::kHnd, 700},
                                   {128, 4, 2, 16, KvOrder::kHnd, 0},
                                   {128, 10, 1, 32, KvOrder::kNhd, 700},
                                   {128, 2, 2, 64, KvOrder::kHnd, 100},
                                   {256, 2, 2, 16, KvOrder::kNhd, 0},
                                   {256, 4, 1, 64, KvOrder::kHnd, 700},
                                   {512, 2, 1, 16, KvOrder::kHnd, 0},
                                   {512, 2, 2, 64, KvOrder::kNhd, 700}},
                                  {{1, 1},
                                   {1, 0},
                                   {1, 511},
                                   {1, 513},
                                   {1, 1300},
                                   {3, 3},
                                   {5, 1030},
                                   {40, 1100},
                                   {200, 200},
                                   {129, 2100}});
}

// Heads that are smaller than the tiles of the kernel that serves them. In HND order what follows
// the last token's head is NaN, in NHD order the next head.
TEST_P(AttentionReferenceTest, TensorCoreHeadDimsBetweenThoseOfTiles) {
  ExpectTensorCoresMatchReference(
      {{80, 2, 1, 16, KvOrder::kHnd, 0},
       {80, 7, 1, 64, KvOrder::kNhd, 700},
       {80, 4, 4, 32, KvOrder::kNhd, 0, 3.0f},
       {96, 4, 2, 16, KvOrder::kNhd, 0},
       {96, 2, 2, 32, KvOrder::kHnd, 100, 3.0f},
       {112, 10, 1, 32, KvOrder::kHnd, 0},
       {112, 4, 2, 16, KvOrder::kNhd, 700, 3.0f},
       {8, 2, 2, 16, KvOrder::kHnd, 0},
       {40, 3, 1, 64, KvOrder::kHnd, 0},
       {136, 4, 1, 64, KvOrder::kHnd, 0},
       {192, 2, 2, 16, KvOrder::kNhd, 700},
       {248, 2, 1, 16, KvOrder::kHnd, 0, 3.0f},
       {264, 4, 1, 16, KvOrder::kNhd, 0, 3.0f},
       {392, 2, 2, 32, KvOrder::kHnd, 100}},
      {{1, 1}, {1, 0}, {1, 513}, {1, 1300}, {3, 3}, {70, 300}, {20, 2100}});
}

TEST_P(AttentionReferenceTest, Bfloat16SoftCap) {
  AttentionGeometry geometry = Geometry(4, 2, 128, DType::kBF16);
  geometry.soft_cap = 5;
  geometry.scale *= 4;
  ExpectMatchesReference(MakePagedBatch(geometry, kMixed, KvOrder::kNhd, 9, 10));
}

// A sink counts once, however many parts a row is computed in; a row without keys has only the
// sink.
TEST_P(AttentionReferenceTest, Sinks) {
  for (const DType dtype : activation_dtypes()) {
    for (const int32_t head_dim : {64, 128, 256, 512}) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " dim " << head_dim);
      AttentionGeometry geometry = Geometry(8, 2, head_dim, dtype);
      geometry.sinks = true;
      ExpectMatchesReference(
          MakePagedBatch(geometry, {{1, 1}, {1, 65}, {1, 5000}, {1, 0}, {7, 7}, {33, 1100}},
                         KvOrder::kHnd, 37, 38));
      geometry.sliding_window = 128;
      geometry.kv_dtype = DType::kF8E4M3;
      ExpectMatchesReference(MakePagedBatch(geometry, kMixed, KvOrder::kHnd, 39, 40));
    }
  }
}

TEST_P(AttentionReferenceTest, LargeLogitsDoNotOverflow) {
  AttentionGeometry geometry = Geometry(2, 1, 64);
  geometry.scale = 40.0f;  // logits of some hundreds: one key takes all the weight
  ExpectMatchesReference(MakePagedBatch(geometry, {{1, 200}, {30, 100}}, KvOrder::kNhd, 13, 14),
                         5e-3);
}

TEST_P(AttentionReferenceTest, PaddingRowsGiveZeros) {
  const PagedBatch batch = MakePagedBatch(Geometry(4, 2, 64, AnyDType()), {{1, 40}, {1, 0}, {1, 0}},
                                          KvOrder::kNhd, 15, 16);
  ExpectMatchesReference(batch);
  const AttentionOutput output = Run(batch);
  for (float value : std::vector<float>(output.out.begin() + 4 * 64, output.out.end())) {
    ASSERT_EQ(value, 0.0f);
  }
}

TEST_P(AttentionReferenceTest, EmptyBatchRuns) {
  const AttentionOutput output =
      Run(MakePagedBatch(Geometry(4, 2, 64, AnyDType()), {}, KvOrder::kNhd, 1, 2));
  EXPECT_TRUE(output.out.empty());
}

// The worked example of the attention requirements, with the corrected numbers: 32 query and 8 KV
// heads of 128, blocks of 16; decodes of 1024 and 2048 tokens, prefills of 512 and 256.
TEST_P(AttentionReferenceTest, GoldenExample) {
  for (const DType kv_dtype : {DType::kBF16, DType::kF8E4M3}) {
    SCOPED_TRACE(DTypeName(kv_dtype));
    AttentionGeometry geometry = Geometry(32, 8, 128, DType::kBF16);
    geometry.kv_dtype = kv_dtype;
    const PagedBatch batch = MakePagedBatch(
        geometry, {{1, 1024}, {1, 2048}, {512, 512}, {256, 256}}, KvOrder::kHnd, 17, 18);
    const AttentionBatch host = batch.HostBatch();
    EXPECT_EQ(host.num_tokens, 770);
    EXPECT_EQ(host.num_decodes, 2);
    EXPECT_EQ(batch.cu_seqlens_q, (std::vector<int32_t>{0, 1, 2, 514, 770}));
    EXPECT_EQ(batch.seq_lens, (std::vector<int32_t>{1024, 2048, 512, 256}));
    EXPECT_EQ(batch.num_blocks, 240 + 1);
    const AttentionOutput output = Run(batch);
    ASSERT_EQ(output.out.size(), 770u * 4096);
    // Both decodes, both ends of both prefills and some tokens between, all heads.
    const PagedBatch rounded = Rounded(batch);
    for (int32_t token : {0, 1, 2, 17, 300, 513, 514, 769}) {
      ExpectTokenMatches(rounded, output, token);
    }
  }
}

// Layer groups' plans share memory; what one run leaves there must not reach the next.
TEST_P(AttentionReferenceTest, PlansMadeTogetherComputeWhatEachWouldAlone) {
  std::vector<PagedBatch> batches;
  for (const int64_t window : {0, 700, 40}) {
    AttentionGeometry geometry = Geometry(8, 2, 128, DType::kBF16);
    geometry.sliding_window = window;
    batches.push_back(
        MakePagedBatch(geometry, {{1, 3000}, {1, 17}, {64, 2000}}, KvOrder::kHnd, 21, 22));
  }
  std::vector<AttentionGeometry> geometries;
  for (const PagedBatch& batch : batches) geometries.push_back(batch.geometry);
  const auto plans = attention().CreatePlans(geometries, LimitsOf(batches[0]));
  ASSERT_TRUE(plans.ok()) << plans.status();
  ASSERT_EQ(plans->size(), batches.size());
  for (const size_t i : {0, 1, 2, 1, 0}) {
    const AttentionOutput alone = Run(batches[i]);
    const AttentionOutput together = Run(batches[i], *(*plans)[i]);
    EXPECT_EQ(together.out, alone.out) << "plan " << i;
    EXPECT_EQ(together.lse, alone.lse) << "plan " << i;
  }
}

TEST_P(AttentionReferenceTest, RejectsUnsupportedGeometryNamingTheField) {
  if (IsTrtllm()) GTEST_SKIP() << "attention_decode_test.cc has it";
  const AttentionLimits limits = {
      .max_num_seqs = 1, .max_num_batched_tokens = 1, .max_blocks_per_seq = 1};
  const auto expect_error = [&](const AttentionGeometry& geometry, const std::string& field) {
    const auto plan = attention().CreatePlan(geometry, limits);
    ASSERT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_NE(std::string(plan.status().message()).find(field), std::string::npos) << plan.status();
  };
  const AttentionGeometry good = Geometry(4, 2, 64);
  EXPECT_TRUE(attention().CreatePlan(good, limits).ok());
  AttentionGeometry bad = good;
  bad.k_head_dim = bad.v_head_dim = 84;
  expect_error(bad, "head_dim");
  bad.k_head_dim = bad.v_head_dim = 520;
  expect_error(bad, "head_dim");
  bad = good;
  bad.v_head_dim = 32;
  expect_error(bad, "keys and values of one head_dim, not of 64 and 32");
  bad = good;
  bad.block_size = 8;
  expect_error(bad, "block_size");
  bad = good;
  bad.num_q_heads = 5;
  expect_error(bad, "num_q_heads");
  bad = good;
  bad.kv_dtype = DType::kI32;
  expect_error(bad, "kv_dtype");
  bad = good;
  bad.query_dtype = DType::kF16;
  expect_error(bad, "query_dtype");
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionReferenceTest,
                         testing::ValuesIn(WithTrtllm(AttentionTargets())), TargetName);

}  // namespace
}  // namespace quire
