// AttentionReferenceTest: batches through an attention path and through plain loops, element by
// element.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/attention_fixture.h"
#include "tests/reference/attention.h"

namespace quire {

class AttentionReferenceTest : public AttentionTest {
 protected:
  // float32 arithmetic on logits of a few units and values of about one: 3e-5, plus the rounding of
  // the output; tensor cores and AMX also round the weights to the type of the values.
  double Tolerance(const AttentionGeometry& geometry) const {
    if (RoundsToFloat8(geometry)) return kFloat8Tolerance;
    const bool rounds_weights =
        GetParam().kind != DeviceKind::kCpu || (WithAmx() && cpu::AmxServes(geometry));
    if (!rounds_weights || geometry.kv_dtype == DType::kF32) return 3e-5;
    return geometry.kv_dtype == DType::kBF16 ? 0x1p-8 : IsTrtllm() ? 0x1p-10 : 0x1p-11;
  }

  // How much the whole is wrong is checked beside kFloat8Tolerance.
  static constexpr double kFloat8RelativeError = 0.05;

  // For what every path must serve.
  static DType AnyDType() { return IsTrtllm() ? DType::kBF16 : DType::kF32; }

  struct TensorCoreCase {
    int32_t head_dim, q_heads, kv_heads, block_size;
    KvOrder order;
    int64_t window;
    float soft_cap = 0;
  };
  // In the 16-bit types that this backend computes in.
  void ExpectTensorCoresMatchReference(const std::vector<TensorCoreCase>& cases,
                                       const std::vector<SeqShape>& seqs) {
    for (DType dtype : half_dtypes()) {
      for (const TensorCoreCase& c : cases) {
        SCOPED_TRACE(testing::Message()
                     << DTypeName(dtype) << " dim " << c.head_dim << " heads " << c.q_heads << "/"
                     << c.kv_heads << " block " << c.block_size << " window " << c.window << " cap "
                     << c.soft_cap);
        AttentionGeometry geometry = Geometry(c.q_heads, c.kv_heads, c.head_dim, dtype);
        geometry.block_size = c.block_size;
        geometry.sliding_window = c.window;
        geometry.soft_cap = c.soft_cap;
        ExpectMatchesReference(MakePagedBatch(geometry, seqs, c.order, 19, 20));
      }
    }
  }

  static KvCacheView HostView(const PagedBatch& batch) {
    KvCacheView view = batch.view;
    if (!batch.k_scales.empty()) view.k.scales = batch.k_scales.data();
    if (!batch.v_scales.empty()) view.v.scales = batch.v_scales.data();
    return view;
  }

  // A batch with the values that the device has.
  static PagedBatch Rounded(PagedBatch batch) {
    batch.q = Queries(batch);
    batch.k = RoundTo(batch.geometry.kv_dtype, std::move(batch.k));
    batch.v = RoundTo(batch.geometry.kv_dtype, std::move(batch.v));
    return batch;
  }

  // Compares one query token of a rounded batch with a reference that computes only this token.
  void ExpectTokenMatches(const PagedBatch& batch, const AttentionOutput& output, int32_t token) {
    const AttentionGeometry& geometry = batch.geometry;
    const int64_t row_size = int64_t{geometry.num_q_heads} * geometry.v_head_dim;
    const auto& starts = batch.cu_seqlens_q;
    const int64_t seq = std::upper_bound(starts.begin(), starts.end(), token) - starts.begin() - 1;
    const int32_t cu_seqlens_q[] = {0, 1};
    const int32_t seq_len = batch.seq_lens[seq] - (starts[seq + 1] - 1 - token);
    AttentionBatch alone = batch.HostBatch();
    alone.num_seqs = alone.num_tokens = 1;
    alone.cu_seqlens_q = cu_seqlens_q;
    alone.seq_lens = &seq_len;
    alone.seq_rows = &batch.seq_rows[seq];
    const std::vector<float> query(batch.q.begin() + token * row_size,
                                   batch.q.begin() + (token + 1) * row_size);
    const reference::AttentionResult expected =
        reference::Attention(geometry, alone, query, batch.k, batch.v, HostView(batch));
    for (int64_t i = 0; i < row_size; ++i) {
      const double rounding = OutputRounding(geometry.query_dtype) * std::abs(expected.out[i]);
      ASSERT_NEAR(output.out[token * row_size + i], expected.out[i], Tolerance(geometry) + rounding)
          << "token " << token << " element " << i;
    }
  }

  // Root of the mean square of differences, over that of what is expected.
  template <typename Expected>
  static double RelativeError(const std::vector<float>& actual, const Expected& expected) {
    double differences = 0, squares = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      const double difference = actual[i] - expected[i];
      differences += difference * difference;
      squares += double{expected[i]} * expected[i];
    }
    return std::sqrt(differences / squares);
  }

  void ExpectMatchesReference(const PagedBatch& batch) {
    ExpectMatchesReference(batch, Tolerance(batch.geometry));
  }
  void ExpectMatchesReference(const PagedBatch& batch, double tolerance) {
    if (IsTrtllm() && !Serves(batch.geometry))
      return;  // attention_decode_test.cc says what it must serve
    ExpectMatchesReference(batch, Run(batch), tolerance);
  }
  void ExpectMatchesReference(const PagedBatch& batch, const AttentionOutput& actual,
                              double tolerance) {
    const AttentionGeometry& geometry = batch.geometry;
    KvCacheView view = batch.view;
    if (!batch.k_scales.empty()) view.k.scales = batch.k_scales.data();
    if (!batch.v_scales.empty()) view.v.scales = batch.v_scales.data();
    const reference::AttentionResult expected = reference::Attention(
        geometry, batch.HostBatch(), Queries(batch), RoundTo(geometry.kv_dtype, batch.k),
        RoundTo(geometry.kv_dtype, batch.v), view, batch.sinks);
    for (size_t i = 0; i < actual.out.size(); ++i) {
      const double rounding = OutputRounding(geometry.query_dtype) * std::abs(expected.out[i]) +
                              SubnormalRounding(geometry.query_dtype);
      ASSERT_NEAR(actual.out[i], expected.out[i], tolerance + rounding) << "element " << i;
    }
    if (RoundsToFloat8(geometry)) {
      EXPECT_LT(RelativeError(actual.out, expected.out), kFloat8RelativeError);
    }
    for (size_t i = 0; i < actual.lse.size(); ++i) {
      if (std::isinf(expected.lse[i])) {
        ASSERT_EQ(actual.lse[i], expected.lse[i]);
      } else {
        const double most = RoundsToFloat8(geometry) ? kFloat8Tolerance : 1e-3;
        ASSERT_NEAR(actual.lse[i], expected.lse[i], std::min(3 * tolerance, most)) << "row " << i;
      }
    }
  }
};

// Decodes first, then chunks with and without a cached prefix; lengths on both sides of every
// boundary.
inline const std::vector<SeqShape> kMixed = {{1, 1},   {1, 15}, {1, 16},  {1, 17},    {1, 65},
                                             {1, 300}, {7, 7},  {17, 17}, {129, 129}, {100, 230}};

}  // namespace quire
