// A captured plan and run, replayed with new contents at the same addresses, as decode steps are.
#include <vector>

#include "tests/kernels/attention_fixture.h"

namespace quire {
namespace {

class AttentionGraphTest : public AttentionTest {
 protected:
  // As decodes, or as prompts of that length.
  void ExpectReplays(int32_t query_len, bool as_decodes = true);
};

// The batch's metadata at fixed addresses.
struct StepBuffers {
  DeviceBuffer cu_seqlens_q, seq_lens, seq_rows, block_tables;

  AttentionBatch Batch(const PagedBatch& batch) const {
    AttentionBatch device = batch.HostBatch();
    device.cu_seqlens_q = cu_seqlens_q.as<int32_t>();
    device.seq_lens = seq_lens.as<int32_t>();
    device.seq_rows = seq_rows.as<int32_t>();
    device.block_tables = block_tables.as<BlockId>();
    return device;
  }
};

void AttentionGraphTest::ExpectReplays(int32_t query_len, bool as_decodes) {
  const AttentionGeometry geometry = Geometry(8, 2, 128, DType::kBF16);
  const SeqShape shape = {query_len, 3000};
  PagedBatch longest =
      MakePagedBatch(geometry, {shape, shape, shape, shape}, KvOrder::kHnd, 31, 32);
  if (as_decodes) longest.decode_query_len = query_len;
  const int64_t num_tokens = longest.HostBatch().num_tokens;
  const StepBuffers step = {Upload(longest.cu_seqlens_q), Upload(longest.seq_lens),
                            Upload(longest.seq_rows), Upload(longest.block_tables)};
  const auto cache_size = static_cast<int64_t>(longest.k.size());
  const DeviceTensor q = UploadTensor(longest.q, geometry.query_dtype, {num_tokens, 8, 128});
  const DeviceTensor k = UploadTensor(longest.k, geometry.kv_dtype, {cache_size});
  const DeviceTensor v = UploadTensor(longest.v, geometry.kv_dtype, {cache_size});
  const DeviceTensor out = UploadTensor(std::vector<float>(longest.q.size(), 77.0f),
                                        geometry.query_dtype, {num_tokens, 8, 128});
  KvCacheView view = longest.view;
  view.k.data = k.buffer.data();
  view.v.data = v.buffer.data();
  const auto plan =
      attention().CreatePlan(geometry, {.max_num_seqs = 4,
                                        .max_num_batched_tokens = num_tokens,
                                        .max_blocks_per_seq = longest.max_blocks_per_seq});
  ASSERT_TRUE(plan.ok()) << plan.status();

  stream().BeginCapture();
  (*plan)->PlanStep(stream(), step.Batch(longest));
  (*plan)->Run(stream(), {.q = q.tensor, .kv_cache = view, .out = out.tensor});
  (*plan)->Run(stream(), {.q = q.tensor, .kv_cache = view, .out = out.tensor});
  const auto graph = stream().EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();

  // Prefixes of the same sequences, and padding; each computed by itself gives the same bits.
  const std::vector<std::vector<int32_t>> steps = {{3000, 3000, 3000, 3000},
                                                   {query_len, 0, 0, 0},
                                                   {17, 600, 2999, 0},
                                                   {3000, 512, 513, query_len}};
  for (const std::vector<int32_t>& seq_lens : steps) {
    Overwrite(step.seq_lens, seq_lens);
    stream().Launch(**graph);
    const std::vector<float> replayed = DownloadTensor(out.tensor);

    PagedBatch batch = longest;
    batch.seq_lens = seq_lens;
    EXPECT_EQ(replayed, Run(batch).out);
  }
}

TEST_P(AttentionGraphTest, ReplaysWithNewLengths) { ExpectReplays(1); }

// As drafts are verified.
TEST_P(AttentionGraphTest, ReplaysWithSeveralTokensOfEachSequence) { ExpectReplays(4); }

TEST_P(AttentionGraphTest, ReplaysUniformPrompts) { ExpectReplays(4, /*as_decodes=*/false); }

// As before the cache has memory, when steps are captured.
TEST_P(AttentionGraphTest, PaddingReadsNothingOfTheCache) {
  for (const DType kv_dtype : {DType::kBF16, DType::kF8E4M3}) {
    AttentionGeometry geometry = Geometry(8, 2, 128, DType::kBF16);
    geometry.kv_dtype = kv_dtype;
    if (!Serves(geometry)) continue;
    PagedBatch batch = MakePagedBatch(geometry, {{1, 300}, {1, 17}}, KvOrder::kHnd, 31, 32);
    batch.seq_lens = {0, 0};
    const StepBuffers step = {Upload(batch.cu_seqlens_q), Upload(batch.seq_lens),
                              Upload(batch.seq_rows), Upload(batch.block_tables)};
    const DeviceTensor q = UploadTensor(batch.q, geometry.query_dtype, {2, 8, 128});
    const DeviceTensor out =
        UploadTensor(std::vector<float>(batch.q.size(), 77.0f), geometry.query_dtype, {2, 8, 128});
    const auto range =
        backend().device().ReserveAddresses(backend().device().info().map_granularity_bytes);
    ASSERT_TRUE(range.ok()) << range.status();
    KvCacheView view = batch.view;
    view.k.data = view.v.data = (*range)->data();
    const auto plan =
        attention().CreatePlan(geometry, {.max_num_seqs = 2,
                                          .max_num_batched_tokens = 2,
                                          .max_blocks_per_seq = batch.max_blocks_per_seq});
    ASSERT_TRUE(plan.ok()) << plan.status();
    (*plan)->PlanStep(stream(), step.Batch(batch));
    (*plan)->Run(stream(), {.q = q.tensor, .kv_cache = view, .out = out.tensor});
    ASSERT_TRUE(stream().Synchronize().ok());
    EXPECT_EQ(DownloadTensor(out.tensor), std::vector<float>(batch.q.size(), 0.0f));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionGraphTest,
                         testing::ValuesIn(WithTrtllm(KernelTargets())), TargetName);

}  // namespace
}  // namespace quire
