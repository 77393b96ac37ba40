// Plans whose phases take paths of their own: each path gets its part of a batch, and together they
// give what one path gives for all of it.
#include "engine/runner/phased_plan.h"

#include <tuple>
#include <utility>
#include <vector>

#include "tests/kernels/attention_fixture.h"
#include "tests/kernels/shared_blocks.h"

namespace quire {
namespace {

// Another path as far as anyone can tell: passes everything on, and remembers what it was to plan.
class RecordingPath : public AttentionBackend {
 public:
  explicit RecordingPath(AttentionBackend& attention) : attention_(attention) {}

  const AttentionCapabilities& capabilities() const override { return attention_.capabilities(); }
  absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePlans(
      absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) override {
    auto plans = attention_.CreatePlans(geometries, limits);
    if (plans.ok()) {
      for (auto& plan : *plans) plan = std::make_unique<Plan>(std::move(plan), batches_);
    }
    return plans;
  }

  const std::vector<AttentionBatch>& batches() const { return batches_; }

 private:
  class Plan : public AttentionPlan {
   public:
    Plan(std::unique_ptr<AttentionPlan> plan, std::vector<AttentionBatch>& batches)
        : plan_(std::move(plan)), batches_(batches) {}
    void PlanStep(Stream& stream, const AttentionBatch& batch) override {
      batches_.push_back(batch);
      plan_->PlanStep(stream, batch);
    }
    void Run(Stream& stream, const AttentionRunArgs& args) const override {
      plan_->Run(stream, args);
    }

   private:
    const std::unique_ptr<AttentionPlan> plan_;
    std::vector<AttentionBatch>& batches_;
  };

  AttentionBackend& attention_;
  std::vector<AttentionBatch> batches_;
};

class PhasedPlanTest : public AttentionTest {
 protected:
  // The same as one plan for all; on a GPU work is cut elsewhere, which rounds otherwise.
  void ExpectAsOnePlan(const PagedBatch& batch, const AttentionOutput& actual) {
    const AttentionOutput expected = Run(batch);
    const bool is_cpu = GetParam().kind == DeviceKind::kCpu;
    const double tolerance = is_cpu                                       ? 0
                             : batch.geometry.query_dtype == DType::kBF16 ? 0x1p-6
                                                                          : 3e-5;
    for (size_t i = 0; i < actual.out.size(); ++i) {
      ASSERT_NEAR(actual.out[i], expected.out[i], tolerance) << "element " << i;
    }
    for (size_t i = 0; i < actual.lse.size(); ++i) {
      ASSERT_NEAR(actual.lse[i], expected.lse[i], is_cpu ? 0 : 1e-3) << "row " << i;
    }
  }

  // Those that the path under test serves.
  std::vector<AttentionGeometry> CascadeGeometries() {
    std::vector<AttentionGeometry> geometries;
    for (const auto& [q_heads, kv_heads, head_dim] : {std::tuple(8, 2, 64), {7, 1, 128}}) {
      for (const auto& [dtype, kv_dtype] : {std::pair(DType::kF32, DType::kF32),
                                            {DType::kBF16, DType::kBF16},
                                            {DType::kF16, DType::kF16},
                                            {DType::kBF16, DType::kF8E4M3},
                                            {DType::kF8E4M3, DType::kF8E4M3}}) {
        AttentionGeometry geometry = Geometry(q_heads, kv_heads, head_dim, dtype);
        geometry.kv_dtype = kv_dtype;
        if (Serves(geometry)) geometries.push_back(geometry);
      }
    }
    return geometries;
  }

  // All sequences but the last, which is a prompt, are decodes. `groups` as SharePrefixes has them.
  void ExpectPrefixesReadOnce(const AttentionGeometry& geometry, const std::vector<SeqShape>& seqs,
                              const std::vector<PrefixShape>& groups) {
    SCOPED_TRACE(testing::Message()
                 << geometry.num_q_heads << "/" << geometry.num_kv_heads << " dim "
                 << geometry.k_head_dim << " " << DTypeName(geometry.query_dtype) << "/"
                 << DTypeName(geometry.kv_dtype));
    PagedBatch batch = MakePagedBatch(geometry, seqs, KvOrder::kHnd, 5, 6);
    SharePrefixes(batch, groups);
    const auto max_num_groups = static_cast<int64_t>(groups.size()) + 2;
    AttentionBackend& native = *backend().attention(AttentionPath::kNative);
    const bool native_serves = WhyUnsupported(native.capabilities(), geometry).empty();
    AttentionBackend& prompts = native_serves ? native : attention();
    RecordingPath prefill(prompts), prefix(prompts), decode(attention());
    auto plans = CreatePhasedPlans(backend().device(),
                                   {.prefill = &prefill,
                                    .decode = &decode,
                                    .prefix = &prefix,
                                    .max_prefix_groups = max_num_groups},
                                   {geometry}, LimitsOf(batch));
    ASSERT_TRUE(plans.ok()) << plans.status();
    AttentionOutput actual = Run(batch, *plans->front());
    ASSERT_EQ(prefix.batches().size(), 1u);
    EXPECT_EQ(prefix.batches()[0].num_seqs, max_num_groups);
    EXPECT_FALSE(prefix.batches()[0].causal);
    ASSERT_EQ(prefill.batches().size(), 1u);
    EXPECT_EQ(prefill.batches()[0].num_seqs, 1);
    ASSERT_EQ(decode.batches().size(), 1u);
    EXPECT_NE(decode.batches()[0].first_blocks, nullptr);
    PagedBatch plain = batch;
    plain.prefix_lens.clear();
    const AttentionOutput expected = Run(plain);
    // The prompt went the way it goes without.
    const size_t num_decode_rows = (seqs.size() - 1) * geometry.num_q_heads;
    actual.out.resize(num_decode_rows * geometry.k_head_dim);
    const bool rounds = !native_serves && RoundsToFloat8(geometry);
    const double tolerance = rounds                                ? kFloat8Tolerance
                             : geometry.query_dtype == DType::kF32 ? 3e-5
                                                                   : 0x1p-6;
    for (size_t i = 0; i < actual.out.size(); ++i) {
      ASSERT_NEAR(actual.out[i], expected.out[i], tolerance) << "element " << i;
    }
    actual.lse.resize(num_decode_rows);
    for (size_t i = 0; i < actual.lse.size(); ++i) {
      if (actual.lse[i] == expected.lse[i]) continue;  // -infinity
      ASSERT_NEAR(actual.lse[i], expected.lse[i], rounds ? kFloat8Tolerance : 1e-3) << "row " << i;
    }
  }
};

TEST_P(PhasedPlanTest, EachPathComputesItsPart) {
  struct Case {
    std::vector<SeqShape> seqs;
    int32_t num_decodes;
  };
  const Case cases[] = {{{{1, 70}, {1, 3}, {1, 1300}, {40, 200}, {9, 9}}, 3},
                        {{{1, 17}, {1, 90}}, 2},
                        {{{5, 5}, {33, 64}}, 0}};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Case& c : cases) {
      const PagedBatch batch =
          MakePagedBatch(Geometry(8, 2, 64, dtype), c.seqs, KvOrder::kHnd, 1, 2);
      if (!Serves(batch.geometry)) continue;
      RecordingPath prefill(*backend().attention(AttentionPath::kNative)), decode(attention());
      auto plans = CreatePhasedPlans(backend().device(), {.prefill = &prefill, .decode = &decode},
                                     {batch.geometry}, LimitsOf(batch));
      ASSERT_TRUE(plans.ok()) << plans.status();
      const AttentionOutput phased = Run(batch, *plans->front());
      ASSERT_EQ(decode.batches().size(), 1u);
      EXPECT_EQ(decode.batches()[0].num_seqs, c.num_decodes);
      EXPECT_EQ(decode.batches()[0].num_decodes, c.num_decodes);
      ASSERT_EQ(prefill.batches().size(), 1u);
      EXPECT_EQ(prefill.batches()[0].num_seqs, static_cast<int>(c.seqs.size()) - c.num_decodes);
      EXPECT_EQ(prefill.batches()[0].num_decodes, 0);
      ExpectAsOnePlan(batch, phased);
    }
  }
}

// Keys that decodes share are read once, and the result is as if each decode had read them.
TEST_P(PhasedPlanTest, PrefixesThatAreSharedAreReadOnce) {
  std::vector<SeqShape> seqs(12);
  for (int i = 0; i < 12; ++i) seqs[i] = {1, 545 + 19 * i};
  for (const int32_t len : {1, 90, 0}) seqs.push_back({1, len});
  seqs.push_back({20, 45});
  for (const AttentionGeometry& geometry : CascadeGeometries()) {
    ExpectPrefixesReadOnce(geometry, seqs, {{5, 32}, {4, 8}, {3, 34}});
  }
}

// A GPU cuts it into more parts than it merges at once.
TEST_P(PhasedPlanTest, ALongPrefixIsReadOnce) {
  std::vector<SeqShape> seqs(5);
  for (int i = 0; i < 5; ++i) seqs[i] = {1, 4500 + 7 * i};
  seqs.push_back({3, 3});
  for (const AttentionGeometry& geometry : CascadeGeometries()) {
    ExpectPrefixesReadOnce(geometry, seqs, {{5, 280}});
  }
}

TEST_P(PhasedPlanTest, OnePathForBothPlansOnce) {
  const PagedBatch batch =
      MakePagedBatch(Geometry(4, 4, 64, DType::kBF16), {{1, 20}, {6, 30}}, KvOrder::kHnd, 1, 2);
  RecordingPath path(attention());
  auto plans = CreatePhasedPlans(backend().device(), {.prefill = &path, .decode = &path},
                                 {batch.geometry}, LimitsOf(batch));
  ASSERT_TRUE(plans.ok()) << plans.status();
  ExpectAsOnePlan(batch, Run(batch, *plans->front()));
  ASSERT_EQ(path.batches().size(), 1u);
  EXPECT_EQ(path.batches()[0].num_seqs, 2);
}

INSTANTIATE_TEST_SUITE_P(Backends, PhasedPlanTest,
                         testing::ValuesIn(WithTrtllm(AttentionTargets())), TargetName);

}  // namespace
}  // namespace quire
