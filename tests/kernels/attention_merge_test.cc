// Plans that merge (AttentionLimits::merges): what they make of the attention of the same queries
// to other keys, against arithmetic in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tests/kernels/attention_reference_test.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class AttentionMergeTest : public AttentionReferenceTest {
 protected:
  // Attention of a batch's queries to other keys, as a run before leaves it: every row has keys.
  static AttentionOutput MakeOthers(const PagedBatch& batch) {
    const AttentionGeometry& geometry = batch.geometry;
    const int64_t num_rows = int64_t{batch.cu_seqlens_q.back()} * geometry.num_q_heads;
    const std::vector<float> out = RandomNormal(num_rows * geometry.v_head_dim, 101);
    return {RoundTo(geometry.query_dtype, out), RandomNormal(num_rows, 102, 4.0f)};
  }

  // Of row `row` of [num_tokens, num_q_heads].
  static void SetRow(const PagedBatch& batch, AttentionOutput& output, int64_t row, float value,
                     float lse) {
    const int32_t dim = batch.geometry.v_head_dim;
    std::fill_n(output.out.begin() + row * dim, dim, value);
    output.lse[row] = lse;
  }

  // The batch's own results are rounded to 16 bits before a GPU merges them.
  double ToleranceOfParts(const AttentionGeometry& geometry) const {
    if (RoundsToFloat8(geometry)) return 2 * kFloat8Tolerance;  // also of how much they weigh
    const bool rounds_parts = GetParam().kind == DeviceKind::kCuda;
    return Tolerance(geometry) + (rounds_parts ? 4 * OutputRounding(geometry.query_dtype) : 0);
  }

  // `batch` has no decodes.
  void ExpectMerged(const PagedBatch& batch, const AttentionOutput& others) {
    const AttentionGeometry& geometry = batch.geometry;
    if (!Serves(geometry)) return;
    AttentionLimits limits = LimitsOf(batch);
    limits.only_phase = AttentionPhase::kPrefill;
    limits.merges = true;
    const auto plan = attention().CreatePlan(geometry, limits);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const AttentionOutput merged = Run(batch, **plan, others);
    const reference::AttentionResult own = reference::Attention(
        geometry, batch.HostBatch(), Queries(batch), RoundTo(geometry.kv_dtype, batch.k),
        RoundTo(geometry.kv_dtype, batch.v), HostView(batch));
    for (size_t row = 0; row < merged.lse.size(); ++row) {
      ExpectRowMerged(geometry, row, merged, others, own);
    }
  }

  void ExpectRowMerged(const AttentionGeometry& geometry, size_t row, const AttentionOutput& merged,
                       const AttentionOutput& others, const reference::AttentionResult& own) {
    const double max = std::max<double>(others.lse[row], own.lse[row]);
    double weight_of_others = 0, weight_of_own = 0;
    if (max == -kInfinity) {
      ASSERT_EQ(merged.lse[row], -kInfinity) << "row " << row;
    } else {
      weight_of_others = std::exp2(others.lse[row] - max);
      weight_of_own = std::exp2(own.lse[row] - max);
      const double sum = weight_of_others + weight_of_own;
      weight_of_others /= sum;
      weight_of_own /= sum;
      const double tolerance = RoundsToFloat8(geometry) ? kFloat8Tolerance : 1e-3;
      ASSERT_NEAR(merged.lse[row], max + std::log2(sum), tolerance) << "row " << row;
    }
    const size_t dim = geometry.v_head_dim;
    for (size_t i = row * dim; i < (row + 1) * dim; ++i) {
      double expected = weight_of_own * own.out[i];
      if (weight_of_others > 0) expected += weight_of_others * others.out[i];
      const double rounding = OutputRounding(geometry.query_dtype) * std::abs(expected);
      ASSERT_NEAR(merged.out[i], expected, ToleranceOfParts(geometry) + rounding)
          << "row " << row << " element " << i % dim;
    }
  }
};

TEST_P(AttentionMergeTest, TypesHeadDimsAndGroups) {
  for (const DType dtype : activation_dtypes()) {
    for (const DType kv_dtype : {dtype, DType::kF8E4M3}) {
      for (const int32_t head_dim : {64, 80, 128, 256}) {
        for (const auto& [q_heads, kv_heads] : {std::pair(4, 2), {7, 1}}) {
          SCOPED_TRACE(testing::Message()
                       << DTypeName(dtype) << "/" << DTypeName(kv_dtype) << " dim " << head_dim
                       << " heads " << q_heads << "/" << kv_heads);
          AttentionGeometry geometry = Geometry(q_heads, kv_heads, head_dim, dtype);
          geometry.kv_dtype = kv_dtype;
          const PagedBatch batch = MakePagedBatch(geometry, {{5, 5}, {1, 70}, {17, 40}, {70, 144}},
                                                  KvOrder::kHnd, 91, 92);
          ExpectMerged(batch, MakeOthers(batch));
        }
      }
    }
  }
}

// Keys that are computed in parts, seen by all queries or causally, with a cap.
TEST_P(AttentionMergeTest, KeysThatAreCut) {
  for (const DType dtype : half_dtypes()) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " causal " << causal);
      AttentionGeometry geometry = Geometry(8, 2, 128, dtype);
      geometry.soft_cap = 5;
      PagedBatch batch =
          MakePagedBatch(geometry, {{30, 5000}, {3, 1300}, {130, 700}}, KvOrder::kHnd, 93, 94);
      batch.causal = causal;
      ExpectMerged(batch, MakeOthers(batch));
    }
  }
}

// Rows for which only one of both has keys, or none has, and such where one weighs nothing beside
// the other; their log-sum-exps are beyond what exp2 makes a float of.
TEST_P(AttentionMergeTest, RowsWithoutKeysAndOfVeryDifferentWeights) {
  for (const DType dtype : activation_dtypes()) {
    SCOPED_TRACE(DTypeName(dtype));
    const PagedBatch batch = MakePagedBatch(Geometry(4, 2, 64, dtype), {{5, 0}, {9, 33}, {40, 200}},
                                            KvOrder::kHnd, 95, 96);
    AttentionOutput others = MakeOthers(batch);
    const int64_t num_without = 5 * 4;  // rows without keys in the batch
    SetRow(batch, others, 3, 0.0f, -kInfinity);
    SetRow(batch, others, 7, 1.0f, 200.0f);
    // What a row without keys holds does not count.
    SetRow(batch, others, num_without + 1, std::numeric_limits<float>::quiet_NaN(), -kInfinity);
    SetRow(batch, others, num_without + 2, 1.0f, 200.0f);
    SetRow(batch, others, num_without + 3, 1.0f, -200.0f);
    ExpectMerged(batch, others);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionMergeTest,
                         testing::ValuesIn(WithTrtllm(AttentionTargets())), TargetName);

}  // namespace
}  // namespace quire
