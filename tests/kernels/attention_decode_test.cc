// Decodes against the reference, on every path that a backend has: one to eight query tokens of
// each sequence, causal among themselves, over all types of cache.
#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/attention_checks.h"
#include "tests/kernels/attention_fixture.h"
#include "tests/reference/attention.h"

namespace quire {
namespace {

// A batch of decodes with as many query tokens each.
PagedBatch MakeDecodes(const AttentionGeometry& geometry, int32_t query_len,
                       const std::vector<int32_t>& kv_lens, KvOrder order, uint32_t seed) {
  std::vector<SeqShape> seqs;
  for (const int32_t kv_len : kv_lens) seqs.push_back({query_len, kv_len});
  PagedBatch batch = MakePagedBatch(geometry, seqs, order, seed, seed + 1);
  batch.decode_query_len = query_len;
  return batch;
}

// Both sides of the borders of blocks and tiles; the last is cut into many shares.
const std::vector<int32_t> kKvLens = {8, 9, 0, 63, 64, 65, 129, 300, 17, 0, 1500};

class AttentionDecodeTest : public AttentionTest {
 protected:
  // The second path must not skip a geometry that it must serve.
  bool Skips(const AttentionGeometry& geometry) {
    if (Serves(geometry)) return false;
    EXPECT_EQ(GetParam().path, AttentionPath::kNative)
        << WhyUnsupported(attention().capabilities(), geometry);
    return true;
  }

  void ExpectMatchesReference(const PagedBatch& batch) {
    const AttentionGeometry& geometry = batch.geometry;
    if (Skips(geometry)) return;
    const AttentionOutput actual = Run(batch);
    KvCacheView view = batch.view;
    if (!batch.k_scales.empty()) view.k.scales = batch.k_scales.data();
    if (!batch.v_scales.empty()) view.v.scales = batch.v_scales.data();
    const reference::AttentionResult expected = reference::Attention(
        geometry, batch.HostBatch(), Queries(batch), RoundTo(geometry.kv_dtype, batch.k),
        RoundTo(geometry.kv_dtype, batch.v), view, batch.sinks);
    // Tensor cores round probabilities to the type that the values are multiplied in.
    const double of_decodes = geometry.kv_dtype == DType::kBF16 ? 0x1p-8 : 0x1p-10;
    const double of_prompts = RoundsToFloat8(geometry) ? kFloat8Tolerance : of_decodes;
    const size_t num_decode_rows =
        size_t{1} * batch.cu_seqlens_q[batch.HostBatch().num_decodes] * geometry.num_q_heads;
    for (size_t i = 0; i < actual.out.size(); ++i) {
      const bool is_decode = i / geometry.v_head_dim < num_decode_rows;
      const double rounding = OutputRounding(geometry.query_dtype) * std::abs(expected.out[i]);
      ASSERT_NEAR(actual.out[i], expected.out[i], (is_decode ? of_decodes : of_prompts) + rounding)
          << "element " << i;
    }
    for (size_t i = 0; i < actual.lse.size(); ++i) {
      if (std::isinf(expected.lse[i])) {
        ASSERT_EQ(actual.lse[i], expected.lse[i]) << "row " << i;
      } else {
        const bool is_exact = i < num_decode_rows || !RoundsToFloat8(geometry);
        ASSERT_NEAR(actual.lse[i], expected.lse[i], is_exact ? 1e-3 : kFloat8Tolerance)
            << "row " << i;
      }
    }
  }
};

// Types of query and cache that go together.
std::vector<std::pair<DType, DType>> Types() {
  std::vector<std::pair<DType, DType>> types = {{DType::kBF16, DType::kBF16},
                                                {DType::kF16, DType::kF16}};
  for (const DType query : {DType::kBF16, DType::kF16}) {
    for (const DType kv : {DType::kF8E4M3, DType::kF8E5M2}) types.push_back({query, kv});
  }
  return types;
}

// One pair of types for each way in which a kernel computes.
std::vector<std::pair<DType, DType>> TypesOfEachKind() {
  return {{DType::kBF16, DType::kBF16}, {DType::kBF16, DType::kF8E4M3}};
}

TEST_P(AttentionDecodeTest, TypesHeadDimsAndQueryLens) {
  for (const auto& [query_dtype, kv_dtype] : Types()) {
    for (const int32_t head_dim : {64, 128, 256}) {
      for (const int32_t query_len : {1, 4, 8}) {
        SCOPED_TRACE(testing::Message() << DTypeName(query_dtype) << "/" << DTypeName(kv_dtype)
                                        << " dim " << head_dim << " query_len " << query_len);
        AttentionGeometry geometry = Geometry(8, 2, head_dim, query_dtype);
        geometry.kv_dtype = kv_dtype;
        ExpectMatchesReference(MakeDecodes(geometry, query_len, kKvLens, KvOrder::kHnd, 41));
      }
    }
  }
}

// Groups of a few rows, of a tile, of a tile for each of several warps, and of several tiles.
TEST_P(AttentionDecodeTest, Groups) {
  for (const auto& [q_heads, kv_heads] :
       {std::pair(2, 2), {3, 1}, {7, 1}, {14, 2}, {16, 1}, {24, 1}, {40, 1}, {72, 1}}) {
    for (const DType kv_dtype : {DType::kBF16, DType::kF8E4M3}) {
      for (const int32_t query_len : {1, 3, 7}) {
        SCOPED_TRACE(testing::Message() << q_heads << "/" << kv_heads << " " << DTypeName(kv_dtype)
                                        << " query_len " << query_len);
        AttentionGeometry geometry = Geometry(q_heads, kv_heads, 128, DType::kBF16);
        geometry.kv_dtype = kv_dtype;
        ExpectMatchesReference(
            MakeDecodes(geometry, query_len, {7, 100, 700, 0}, KvOrder::kHnd, 43));
      }
    }
  }
}

// Drafts are decodes, and the prompts behind them have other lengths.
TEST_P(AttentionDecodeTest, DraftsBesidePrompts) {
  for (const auto& [query_dtype, kv_dtype] : TypesOfEachKind()) {
    for (const int64_t window : {0, 40}) {
      SCOPED_TRACE(testing::Message()
                   << DTypeName(query_dtype) << "/" << DTypeName(kv_dtype) << " window " << window);
      AttentionGeometry geometry = Geometry(8, 2, 128, query_dtype);
      geometry.kv_dtype = kv_dtype;
      geometry.sliding_window = window;
      PagedBatch batch =
          MakePagedBatch(geometry, {{4, 300}, {4, 70}, {4, 0}, {50, 120}, {3, 3}, {130, 700}},
                         KvOrder::kHnd, 49, 50);
      batch.decode_query_len = 4;
      ExpectMatchesReference(batch);
    }
  }
}

TEST_P(AttentionDecodeTest, BlockSizesAndLayouts) {
  for (const DType kv_dtype : {DType::kBF16, DType::kF8E5M2}) {
    for (const int32_t head_dim : {64, 128, 256}) {
      for (const int32_t block_size : {16, 32, 64}) {
        for (const KvOrder order : {KvOrder::kNhd, KvOrder::kHnd}) {
          SCOPED_TRACE(testing::Message() << DTypeName(kv_dtype) << " dim " << head_dim << " block "
                                          << block_size << " order " << static_cast<int>(order));
          AttentionGeometry geometry = Geometry(4, 2, head_dim, DType::kBF16);
          geometry.kv_dtype = kv_dtype;
          geometry.block_size = block_size;
          ExpectMatchesReference(MakeDecodes(geometry, 2, kKvLens, order, 45));
        }
      }
    }
  }
}

TEST_P(AttentionDecodeTest, WindowsCapsAndSinks) {
  for (const auto& [query_dtype, kv_dtype] : TypesOfEachKind()) {
    for (const int64_t window : {0, 1, 5, 64, 100, 1000}) {
      for (const bool others : {false, true}) {
        for (const int32_t query_len : {1, 4}) {
          SCOPED_TRACE(testing::Message()
                       << DTypeName(query_dtype) << "/" << DTypeName(kv_dtype) << " window "
                       << window << " others " << others << " query_len " << query_len);
          AttentionGeometry geometry = Geometry(8, 2, 64, query_dtype);
          geometry.kv_dtype = kv_dtype;
          geometry.sliding_window = window;
          geometry.sinks = others;
          geometry.soft_cap = others ? 5 : 0;
          ExpectMatchesReference(MakeDecodes(geometry, query_len, kKvLens, KvOrder::kHnd, 47));
        }
      }
    }
  }
}

// A sliding-window cache gives back blocks that nobody sees any more: their entries are -1.
TEST_P(AttentionDecodeTest, BlocksBehindTheWindowAreNotRead) {
  AttentionGeometry geometry = Geometry(4, 2, 64, DType::kBF16);
  geometry.sliding_window = 40;
  PagedBatch batch = MakeDecodes(geometry, 2, {1500, 221}, KvOrder::kHnd, 49);
  const AttentionOutput before = Run(batch);
  for (const auto& [seq, first_visible] : {std::pair(0, 1459), {1, 180}}) {
    const auto row = batch.block_tables.begin() + batch.seq_rows[seq] * batch.max_blocks_per_seq;
    std::fill_n(row, first_visible / geometry.block_size, kNoBlock);
  }
  const AttentionOutput after = Run(batch);
  EXPECT_EQ(before.out, after.out);
  EXPECT_EQ(before.lse, after.lse);
}

// Queries next to the largest bfloat16: beside an 8-bit cache they are scaled before they become
// float16.
TEST_P(AttentionDecodeTest, QueriesBeyondFloat16) {
  for (const float factor : {1e-30f, 1e30f}) {
    AttentionGeometry geometry = Geometry(4, 2, 64, DType::kBF16);
    geometry.kv_dtype = DType::kF8E4M3;
    geometry.scale /= factor;
    PagedBatch batch = MakeDecodes(geometry, 1, {200, 90}, KvOrder::kHnd, 51);
    for (float& value : batch.q) value *= factor;
    ExpectMatchesReference(batch);
  }
}

// Lengths from one to thousands, more sequences than there are shares, and sequences of padding
// only.
TEST_P(AttentionDecodeTest, SkewedAndManySequences) {
  const AttentionGeometry geometry = Geometry(4, 2, 64, DType::kBF16);
  std::vector<int32_t> kv_lens(300, 5);
  for (size_t i = 0; i < kv_lens.size(); ++i) kv_lens[i] += static_cast<int32_t>(i * 37 % 90);
  kv_lens[7] = 9000;
  ExpectMatchesReference(MakeDecodes(geometry, 1, kv_lens, KvOrder::kHnd, 53));
  ExpectMatchesReference(MakeDecodes(geometry, 3, {0, 0, 0}, KvOrder::kHnd, 55));
}

// So few keys each that most warps have no tile of a sequence.
TEST_P(AttentionDecodeTest, ManySequencesOfFewKeys) {
  std::vector<int32_t> kv_lens(GetParam().kind == DeviceKind::kCpu ? 40 : 300);
  for (size_t i = 0; i < kv_lens.size(); ++i) {
    kv_lens[i] = 1 + static_cast<int32_t>(i * 53 % (i % 3 == 0 ? 520 : 130));
  }
  for (const auto& [num_q_heads, query_len, head_dim, kv_dtype] :
       {std::tuple(8, 1, 128, DType::kBF16),
        {8, 1, 128, DType::kF8E4M3},
        {8, 4, 128, DType::kBF16},
        {32, 2, 64, DType::kBF16},
        {8, 1, 256, DType::kF8E4M3}}) {
    AttentionGeometry geometry = Geometry(num_q_heads, 2, head_dim, DType::kBF16);
    geometry.kv_dtype = kv_dtype;
    if (Skips(geometry)) continue;
    SCOPED_TRACE(testing::Message() << num_q_heads << "/2 heads of " << head_dim << ", "
                                    << query_len << " tokens, " << DTypeName(kv_dtype));
    std::vector<int32_t> lens = kv_lens;
    for (int32_t& len : lens) len = std::max(len, query_len);
    ExpectMatchesReference(MakeDecodes(geometry, query_len, lens, KvOrder::kHnd, 61));
  }
}

// Contexts long enough that what is loaded ahead goes round many times.
TEST_P(AttentionDecodeTest, LongContexts) {
  if (GetParam().kind == DeviceKind::kCpu) GTEST_SKIP() << "the CPU loads nothing ahead";
  for (const auto& [head_dim, kv_dtype, num_heads, kv_len] :
       {std::tuple(128, DType::kBF16, 16, 14000),
        {128, DType::kF8E4M3, 16, 20000},
        {256, DType::kBF16, 8, 14000}}) {
    SCOPED_TRACE(testing::Message() << "dim " << head_dim << " " << DTypeName(kv_dtype));
    AttentionGeometry geometry = Geometry(num_heads, num_heads, head_dim, DType::kBF16);
    geometry.kv_dtype = kv_dtype;
    ExpectMatchesReference(MakeDecodes(geometry, 1, {100, kv_len, 3}, KvOrder::kHnd, 54));
  }
}

// The thread block that comes last merges: the bits must not show which one that was.
TEST_P(AttentionDecodeTest, BitsAreEqualOnRepeat) {
  for (const DType kv_dtype : {DType::kBF16, DType::kF8E4M3}) {
    AttentionGeometry geometry = Geometry(8, 2, 128, DType::kBF16);
    geometry.kv_dtype = kv_dtype;
    if (Skips(geometry)) continue;
    const PagedBatch batch = MakeDecodes(geometry, 2, {3000, 100, 5000, 64}, KvOrder::kHnd, 57);
    const auto plan = attention().CreatePlan(geometry, LimitsOf(batch));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const AttentionOutput first = Run(batch, **plan);
    for (int repeat = 0; repeat < 10; ++repeat) {
      const AttentionOutput again = Run(batch, **plan);
      ASSERT_EQ(first.out, again.out);
      ASSERT_EQ(first.lse, again.lse);
    }
  }
}

// The same plan for steps of different query lengths.
TEST_P(AttentionDecodeTest, OnePlanServesEveryQueryLen) {
  const AttentionGeometry geometry = Geometry(8, 2, 128, DType::kBF16);
  const PagedBatch longest = MakeDecodes(geometry, 8, {3000, 100, 500}, KvOrder::kHnd, 59);
  const auto plan = attention().CreatePlan(geometry, LimitsOf(longest));
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const int32_t query_len : {8, 1, 5, 8}) {
    const PagedBatch batch = MakeDecodes(geometry, query_len, {3000, 100, 500}, KvOrder::kHnd, 59);
    EXPECT_EQ(Run(batch, **plan).out, Run(batch).out) << query_len;
  }
}

TEST_P(AttentionDecodeTest, RejectsUnsupportedGeometryNamingTheField) {
  if (GetParam().path == AttentionPath::kNative) {
    GTEST_SKIP() << "attention_test.cc has it";
  }
  const AttentionLimits limits = {
      .max_num_seqs = 1, .max_num_batched_tokens = 1, .max_blocks_per_seq = 1};
  const auto expect_error = [&](const AttentionGeometry& geometry, const std::string& field) {
    const auto plan = attention().CreatePlan(geometry, limits);
    ASSERT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_NE(std::string(plan.status().message()).find(field), std::string::npos) << plan.status();
  };
  const AttentionGeometry good = Geometry(4, 2, 64, DType::kBF16);
  EXPECT_TRUE(attention().CreatePlan(good, limits).ok());
  AttentionGeometry bad = good;
  bad.k_head_dim = bad.v_head_dim = 96;
  expect_error(bad, "head_dim");
  bad = good;
  bad.block_size = 128;
  expect_error(bad, "block_size");
  bad = good;
  bad.query_dtype = DType::kF32;
  expect_error(bad, "query_dtype");
  bad = good;
  bad.kv_dtype = DType::kF32;
  expect_error(bad, "kv_dtype");
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionDecodeTest,
                         testing::ValuesIn(WithTrtllm(KernelTargets())), TargetName);

}  // namespace
}  // namespace quire
