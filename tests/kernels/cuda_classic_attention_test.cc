// The first PagedAttention's kernels, which the paths are compared with, against the reference.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/classic/classic_attention.h"
#include "tests/kernels/attention_fixture.h"
#include "tests/reference/attention.h"

namespace quire {
namespace {

class CudaClassicAttentionTest : public AttentionTest {
 protected:
  using AttentionTest::Run;
  AttentionOutput Run(const PagedBatch& batch) {
    const auto plan = cuda::CreateClassicPlan(backend().device(), batch.geometry, LimitsOf(batch));
    EXPECT_TRUE(plan.ok()) << plan.status();
    return Run(batch, **plan);
  }
  void ExpectMatchesReference(const PagedBatch& batch) {
    ExpectMatchesReference(batch, Run(batch));
  }
  static void ExpectMatchesReference(const PagedBatch& batch, const AttentionOutput& actual) {
    const AttentionGeometry& geometry = batch.geometry;
    const reference::AttentionResult expected = reference::Attention(
        geometry, batch.HostBatch(), RoundTo(geometry.query_dtype, batch.q),
        RoundTo(geometry.kv_dtype, batch.k), RoundTo(geometry.kv_dtype, batch.v), batch.view);
    for (size_t i = 0; i < actual.out.size(); ++i) {
      const double rounding = OutputRounding(geometry.query_dtype) * std::abs(expected.out[i]);
      ASSERT_NEAR(actual.out[i], expected.out[i], 3e-5 + rounding) << "element " << i;
    }
    for (size_t i = 0; i < actual.lse.size(); ++i) {
      if (std::isinf(expected.lse[i])) {
        ASSERT_EQ(actual.lse[i], expected.lse[i]);
      } else {
        ASSERT_NEAR(actual.lse[i], expected.lse[i], 1e-4) << "row " << i;
      }
    }
  }
};

// Both sides of the borders of blocks and partitions.
const std::vector<SeqShape> kDecodes = {{1, 1},   {1, 15},  {1, 16},  {1, 17},   {1, 0},
                                        {1, 511}, {1, 512}, {1, 513}, {1, 1024}, {1, 3000}};

TEST_P(CudaClassicAttentionTest, TypesHeadDimsAndGroups) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const int32_t head_dim : {64, 128, 256}) {
      for (const auto& [q_heads, kv_heads] : {std::pair(2, 2), {8, 2}, {6, 2}}) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " dim " << head_dim << " heads "
                                        << q_heads << "/" << kv_heads);
        ExpectMatchesReference(MakePagedBatch(Geometry(q_heads, kv_heads, head_dim, dtype),
                                              kDecodes, KvOrder::kHnd, 1, 2));
      }
    }
  }
}

TEST_P(CudaClassicAttentionTest, BlockSizesAndLayouts) {
  for (const int32_t block_size : {16, 32, 64}) {
    for (const KvOrder order : {KvOrder::kNhd, KvOrder::kHnd}) {
      SCOPED_TRACE(block_size);
      AttentionGeometry geometry = Geometry(4, 2, 128, DType::kBF16);
      geometry.block_size = block_size;
      ExpectMatchesReference(MakePagedBatch(geometry, kDecodes, order, 3, 4));
    }
  }
}

// What an earlier step left, in the copy of its cache or as partial results, is not seen.
TEST_P(CudaClassicAttentionTest, OnePlanForStepsOfEveryLength) {
  const AttentionGeometry geometry = Geometry(4, 2, 128, DType::kBF16);
  const PagedBatch large =
      MakePagedBatch(geometry, {{1, 3000}, {1, 700}, {1, 1500}}, KvOrder::kHnd, 5, 6);
  const PagedBatch small = MakePagedBatch(geometry, {{1, 17}, {1, 600}}, KvOrder::kHnd, 7, 8);
  const auto plan = cuda::CreateClassicPlan(backend().device(), geometry, LimitsOf(large));
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const PagedBatch* batch : {&large, &small, &large}) {
    ExpectMatchesReference(*batch, Run(*batch, **plan));
  }
}

TEST_P(CudaClassicAttentionTest, AnEmptyBatchAndPadding) {
  EXPECT_TRUE(
      Run(MakePagedBatch(Geometry(4, 2, 64, DType::kBF16), {}, KvOrder::kNhd, 1, 2)).out.empty());
  ExpectMatchesReference(MakePagedBatch(Geometry(4, 2, 64, DType::kBF16), {{1, 40}, {1, 0}, {1, 0}},
                                        KvOrder::kNhd, 15, 16));
}

TEST_P(CudaClassicAttentionTest, RefusesWhatItDoesNotCompute) {
  const AttentionGeometry good = Geometry(4, 2, 64, DType::kBF16);
  const AttentionLimits limits = {
      .max_num_seqs = 1, .max_num_batched_tokens = 1, .max_blocks_per_seq = 1};
  const auto error_of = [&](auto change) {
    AttentionGeometry geometry = good;
    change(geometry);
    const auto plan = cuda::CreateClassicPlan(backend().device(), geometry, limits);
    return std::string(plan.status().message());
  };
  EXPECT_EQ(error_of([](AttentionGeometry&) {}), "");
  EXPECT_EQ(error_of([](AttentionGeometry& g) { g.kv_dtype = DType::kF8E4M3; }),
            "classic attention does not take kv_dtype fp8_e4m3");
  EXPECT_EQ(error_of([](AttentionGeometry& g) { g.sliding_window = 9; }),
            "classic attention has no sliding window");
  EXPECT_EQ(error_of([](AttentionGeometry& g) { g.sinks = true; }),
            "classic attention has no attention sinks");
}

INSTANTIATE_TEST_SUITE_P(Targets, CudaClassicAttentionTest, testing::ValuesIn(CudaTargets()),
                         TargetName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaClassicAttentionTest);

}  // namespace
}  // namespace quire
