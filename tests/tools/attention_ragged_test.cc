// Attention to a step's own keys and values where a gemm left them, by itself and merged with
// attention to what was cached before, on every path.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/kernels/attention_reference_test.h"
#include "tools/bench/kernels/ragged_kv.h"
#include "tools/bench/kernels/ragged_plan.h"

namespace quire::bench {
namespace {

using testing::HasSubstr;

class AttentionRaggedTest : public AttentionReferenceTest {
 protected:
  // Own keys and values as the cache has them, in the queries' dtype; the rows behind them are NaN,
  // and those of padding.
  std::vector<float> OwnRows(const PagedBatch& batch, const std::vector<float>& cache) {
    const KvCacheView& view = batch.view;
    const int64_t row_size = int64_t{view.num_kv_heads} * view.k.head_dim;
    std::vector<float> rows((batch.cu_seqlens_q.back() + kRaggedRoomRows) * row_size,
                            std::numeric_limits<float>::quiet_NaN());
    for (size_t i = 0; i < batch.seqs.size(); ++i) {
      const BlockId* blocks =
          batch.block_tables.data() + batch.seq_rows[i] * batch.max_blocks_per_seq;
      for (int32_t j = 0; j < OwnLen(batch.seqs[i]); ++j) {
        const int64_t position = batch.seqs[i].kv_len - OwnLen(batch.seqs[i]) + j;
        const int64_t slot = blocks[position / view.block_size] * view.k.block_stride +
                             position % view.block_size * view.k.token_stride;
        for (int32_t head = 0; head < view.num_kv_heads; ++head) {
          std::copy_n(
              cache.begin() + slot + head * view.k.head_stride, view.k.head_dim,
              rows.begin() + (batch.cu_seqlens_q[i] + j) * row_size + head * view.k.head_dim);
        }
      }
    }
    return RoundTo(batch.geometry.kv_dtype, std::move(rows));
  }

  absl::StatusOr<std::unique_ptr<RaggedPlan>> MakePlan(const PagedBatch& batch, bool has_prefixes) {
    const AttentionGeometry& geometry = batch.geometry;
    std::vector<int32_t> own_lens, prefix_lens;
    for (const SeqShape& seq : batch.seqs) {
      own_lens.push_back(OwnLen(seq));
      prefix_lens.push_back(seq.kv_len - OwnLen(seq));
    }
    const int64_t stride = CeilDiv<int64_t>(batch.cu_seqlens_q.back(), kRaggedBlockSize);
    std::vector<BlockId> tables(batch.seqs.size() * stride, kNoBlock);
    FillRaggedBlockTables(batch.cu_seqlens_q, batch.seq_rows, stride, absl::MakeSpan(tables));
    const int64_t num_rows = batch.cu_seqlens_q.back() + kRaggedRoomRows;
    const auto upload = [&](const std::vector<float>& cache) {
      return UploadTensor(OwnRows(batch, cache), geometry.query_dtype,
                          {num_rows, geometry.num_kv_heads, geometry.k_head_dim});
    };
    k_ = upload(batch.k);
    v_ = upload(batch.v);
    own_lens_ = Upload(own_lens);
    prefix_lens_ = Upload(prefix_lens);
    tables_ = Upload(tables);
    return RaggedPlan::Create(backend().device(), attention(), geometry, LimitsOf(batch),
                              {.k = k_.tensor,
                               .v = v_.tensor,
                               .query_lens = own_lens_.as<int32_t>(),
                               .prefix_lens = has_prefixes ? prefix_lens_.as<int32_t>() : nullptr,
                               .block_tables = tables_.as<BlockId>(),
                               .block_table_stride = stride});
  }

  // `batch` has no prefixes.
  void ExpectOwnTokensMatch(const PagedBatch& batch) {
    if (!Serves(batch.geometry)) return;
    const auto plan = MakePlan(batch, /*has_prefixes=*/false);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const AttentionOutput output = Run(batch, **plan);
    ExpectMatchesReference(batch, output, Tolerance(batch.geometry));
    if (GetParam().kind != DeviceKind::kCpu) return;
    // The same sums, whatever the blocks.
    const AttentionOutput paged = Run(batch);
    EXPECT_EQ(output.out, paged.out);
    EXPECT_EQ(output.lse, paged.lse);
  }

  void ExpectPrefixesAndOwnTokensMatch(PagedBatch batch) {
    if (!Serves(batch.geometry)) return;
    // So that own tokens of 16 bits have the values of those in a cache of 8.
    batch.k_scales.assign(batch.k_scales.size(), 1.0f);
    batch.v_scales.assign(batch.v_scales.size(), 1.0f);
    const auto plan = MakePlan(batch, /*has_prefixes=*/true);
    ASSERT_TRUE(plan.ok()) << plan.status();
    // The parts are rounded before they are merged, and may be larger than the result.
    const double of_parts = 4 * OutputRounding(batch.geometry.query_dtype);
    ExpectMatchesReference(batch, Run(batch, **plan), Tolerance(batch.geometry) + of_parts);
  }

 private:
  // Padding has a query token, but no key.
  static int32_t OwnLen(const SeqShape& seq) { return std::min(seq.query_len, seq.kv_len); }

  DeviceTensor k_, v_;
  DeviceBuffer own_lens_, prefix_lens_, tables_;
};

// On both sides of every boundary, decodes first.
const std::vector<SeqShape> kNew = {{1, 1},   {1, 1},   {1, 0},     {2, 2},     {15, 15},
                                    {16, 16}, {63, 63}, {64, 64},   {65, 65},   {33, 33},
                                    {5, 5},   {17, 17}, {129, 129}, {200, 200}, {48, 48}};
const std::vector<SeqShape> kExtended = {{1, 1},    {1, 70},  {1, 0},    {1, 65},
                                         {5, 5},    {17, 18}, {40, 200}, {64, 64},
                                         {40, 168}, {70, 70}, {33, 700}, {30, 46}};

TEST_P(AttentionRaggedTest, OwnTokensOfEveryHeadDimAndGroup) {
  for (const DType dtype : activation_dtypes()) {
    for (const int32_t head_dim : {64, 80, 128, 256}) {
      for (const auto& [q_heads, kv_heads] : {std::pair(2, 2), {7, 1}}) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " dim " << head_dim << " heads "
                                        << q_heads << "/" << kv_heads);
        ExpectOwnTokensMatch(MakePagedBatch(Geometry(q_heads, kv_heads, head_dim, dtype), kNew,
                                            KvOrder::kHnd, 71, 72));
      }
    }
  }
}

TEST_P(AttentionRaggedTest, OwnTokensWithWindowsCapsAndSinks) {
  for (const DType dtype : activation_dtypes()) {
    for (const int64_t window : {0, 1, 40, 100}) {
      for (const bool others : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << DTypeName(dtype) << " window " << window << " others " << others);
        AttentionGeometry geometry = Geometry(8, 2, 64, dtype);
        geometry.sliding_window = window;
        geometry.soft_cap = others ? 5 : 0;
        geometry.sinks = others;
        ExpectOwnTokensMatch(MakePagedBatch(geometry, kNew, KvOrder::kNhd, 73, 74));
      }
    }
  }
}

// Longer than a split.
TEST_P(AttentionRaggedTest, LongPrompts) {
  for (const DType dtype : half_dtypes()) {
    ExpectOwnTokensMatch(MakePagedBatch(Geometry(2, 1, 128, dtype), {{1100, 1100}, {700, 700}},
                                        KvOrder::kHnd, 75, 76));
  }
}

TEST_P(AttentionRaggedTest, PrefixesAndOwnTokens) {
  for (const DType dtype : activation_dtypes()) {
    for (const DType kv_dtype : {dtype, DType::kF8E4M3}) {
      for (const int32_t head_dim : {64, 128, 256}) {
        SCOPED_TRACE(testing::Message()
                     << DTypeName(dtype) << "/" << DTypeName(kv_dtype) << " dim " << head_dim);
        AttentionGeometry geometry = Geometry(4, 2, head_dim, dtype);
        geometry.kv_dtype = kv_dtype;
        ExpectPrefixesAndOwnTokensMatch(MakePagedBatch(geometry, kExtended, KvOrder::kHnd, 77, 78));
      }
    }
  }
}

// A sink counts once, also where there is no prefix.
TEST_P(AttentionRaggedTest, PrefixesAndOwnTokensWithCapsAndSinks) {
  for (const DType dtype : activation_dtypes()) {
    for (const int32_t group_size : {1, 4}) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " group of " << group_size);
      AttentionGeometry geometry = Geometry(group_size, 1, 128, dtype);
      geometry.sinks = true;
      ExpectPrefixesAndOwnTokensMatch(MakePagedBatch(geometry, kExtended, KvOrder::kHnd, 79, 80));
      geometry.soft_cap = 5;
      geometry.block_size = 32;
      ExpectPrefixesAndOwnTokensMatch(MakePagedBatch(geometry, kExtended, KvOrder::kNhd, 81, 82));
    }
  }
}

TEST_P(AttentionRaggedTest, PrefixesWithAWindowAreRefused) {
  AttentionGeometry geometry = Geometry(4, 2, 64, DType::kBF16);
  geometry.sliding_window = 40;
  const PagedBatch batch = MakePagedBatch(geometry, {{20, 60}}, KvOrder::kHnd, 83, 84);
  const auto plan = MakePlan(batch, /*has_prefixes=*/true);
  ASSERT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("sliding_window"));
}

TEST(RaggedBlockTablesTest, BlocksOverlapThoseOfTheNextSequence) {
  std::vector<BlockId> tables(4 * 3, kNoBlock);
  FillRaggedBlockTables({0, 1, 1, 130, 194}, {2, 0, 3, 1}, 3, absl::MakeSpan(tables));
  const std::vector<BlockId> expected = {kNoBlock, kNoBlock, kNoBlock,  //
                                         130,      kNoBlock, kNoBlock,  //
                                         0,        kNoBlock, kNoBlock,  //
                                         1,        65,       129};
  EXPECT_EQ(tables, expected);
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionRaggedTest,
                         testing::ValuesIn(WithTrtllm(AttentionTargets())), TargetName);

}  // namespace
}  // namespace quire::bench
