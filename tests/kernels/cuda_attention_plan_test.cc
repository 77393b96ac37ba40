// The planning kernels leave on the device the page table in both forms, and work lists that cover
// every tile of every sequence's queries and every key that it sees, once.
#include <map>
#include <tuple>
#include <vector>

#include "kernels/attention_batch.h"
#include "kernels/cuda/attention/plan_memory.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "tests/kernels/attention_fixture.h"

namespace quire::cuda {
namespace {

class CudaAttentionPlanTest : public AttentionTest {
 protected:
  // Plans the batch, whose device copies live as long as this.
  std::unique_ptr<PlanMemory> Plan(const PagedBatch& batch, const PlanOptions& options = {}) {
    buffers_[0] = Upload(batch.cu_seqlens_q);
    buffers_[1] = Upload(batch.seq_lens);
    buffers_[2] = Upload(batch.seq_rows);
    buffers_[3] = Upload(batch.block_tables);
    AttentionBatch device = batch.HostBatch();
    device.cu_seqlens_q = buffers_[0].as<int32_t>();
    device.seq_lens = buffers_[1].as<int32_t>();
    device.seq_rows = buffers_[2].as<int32_t>();
    device.block_tables = buffers_[3].as<BlockId>();
    AttentionLimits limits = LimitsOf(batch);
    if (options.padded_pages) limits.only_phase = AttentionPhase::kPrefill;
    auto plans = PlanMemory::Create(backend().device(), {batch.geometry}, limits, options);
    EXPECT_TRUE(plans.ok()) << plans.status();
    plans->front()->SetBatch(options.padded_pages ? PrefillsOf(device) : device);
    CudaStream::From(stream()).Run(
        "plan", [&](cudaStream_t s) { LaunchPlan(plans->front()->params(), s); });
    Synchronize();
    return std::move(plans->front());
  }

 private:
  DeviceBuffer buffers_[4];
};

const std::vector<SeqShape> kSeqs = {{1, 1}, {1, 16},    {1, 17},    {1, 0},     {1, 9000},
                                     {7, 7}, {129, 400}, {64, 5000}, {300, 300}, {2, 33}};

TEST_P(CudaAttentionPlanTest, PageTableIsTheBlockTablesInCsrForm) {
  for (const int32_t block_size : {16, 32, 64}) {
    AttentionGeometry geometry = Geometry(8, 2, 128, DType::kBF16);
    geometry.block_size = block_size;
    const PagedBatch batch = MakePagedBatch(geometry, kSeqs, KvOrder::kHnd, 1, 2);
    const auto plan = Plan(batch);
    const PageTable& pages = plan->params().pages;
    const auto indptr = Download<int32_t>(pages.kv_indptr, static_cast<int64_t>(kSeqs.size()) + 1);
    std::vector<int32_t> expected_indptr = {0};
    std::vector<BlockId> expected;
    for (size_t i = 0; i < kSeqs.size(); ++i) {
      const int64_t num_blocks = CeilDiv(kSeqs[i].kv_len, block_size);
      expected_indptr.push_back(expected_indptr.back() + static_cast<int32_t>(num_blocks));
      const BlockId* row = batch.block_tables.data() + batch.seq_rows[i] * batch.max_blocks_per_seq;
      expected.insert(expected.end(), row, row + num_blocks);
    }
    EXPECT_EQ(indptr, expected_indptr);
    EXPECT_EQ(Download<int32_t>(pages.kv_indices, indptr.back()), expected);
  }
}

// The worked example of the attention requirements (attention_test.cc), blocks of 16.
TEST_P(CudaAttentionPlanTest, GoldenExampleInCsrAndInPaddedForm) {
  const AttentionGeometry geometry = Geometry(32, 8, 128, DType::kBF16);
  const PagedBatch batch = MakePagedBatch(geometry, {{1, 1024}, {1, 2048}, {512, 512}, {256, 256}},
                                          KvOrder::kHnd, 17, 18);
  const auto native = Plan(batch);
  EXPECT_EQ(Download<int32_t>(native->params().pages.kv_indptr, 5),
            (std::vector<int32_t>{0, 64, 192, 224, 240}));
  const auto context = Plan(batch, {.padded_pages = true});
  const PageTable& pages = context->params().pages;
  const auto begins = Download<int32_t>(pages.kv_indptr, 2);
  const auto table = Download<BlockId>(pages.kv_indices, batch.block_tables.size());
  EXPECT_EQ(table, batch.block_tables);
  for (size_t i = 0; i < 2; ++i) {  // the prompts
    EXPECT_EQ(begins[i], batch.seq_rows[i + 2] * batch.max_blocks_per_seq);
  }
  const WorkList& work = context->params().lists[1];
  const WorkListState state = Download<WorkListState>(work.state, 1)[0];
  ASSERT_GT(state.num_items, 0);
  for (const WorkItem& item : Download<WorkItem>(work.items, state.num_items)) {
    const size_t prompt = item.first_token == 2 ? 0 : 1;
    EXPECT_EQ(item.first_token, batch.cu_seqlens_q[prompt + 2]);
    EXPECT_EQ(item.first_page, begins[prompt]);
  }
  EXPECT_EQ(Download<WorkListState>(context->params().lists[0].state, 1)[0].num_items, 0);
}

// The first key that any query of a sequence sees.
int64_t FirstVisibleKey(const SeqShape& seq, int64_t window) {
  return window > 0 ? std::max<int64_t>(0, seq.kv_len - (seq.query_len - 1) - window) : 0;
}

TEST_P(CudaAttentionPlanTest, ItemsCoverEveryTileAndKeyOnce) {
  for (const int64_t window : {0, 700}) {
    AttentionGeometry geometry = Geometry(8, 2, 128, DType::kBF16);
    geometry.sliding_window = window;
    const PagedBatch batch = MakePagedBatch(geometry, kSeqs, KvOrder::kHnd, 1, 2);
    const auto plan = Plan(batch);
    std::map<int32_t, size_t> seq_of_token;
    for (size_t i = 0; i < kSeqs.size(); ++i) seq_of_token[batch.cu_seqlens_q[i]] = i;
    // First and end of each of a tile's splits.
    std::map<std::tuple<size_t, int32_t>, std::vector<std::pair<int32_t, int32_t>>> splits;
    int32_t split_tokens[kNumWorkLists];
    for (int list = 0; list < kNumWorkLists; ++list) {
      const WorkList& work = plan->params().lists[list];
      const WorkListState state = Download<WorkListState>(work.state, 1)[0];
      split_tokens[list] = state.split_tokens;
      for (const WorkItem& item : Download<WorkItem>(work.items, state.num_items)) {
        ASSERT_TRUE(seq_of_token.contains(item.first_token));
        const size_t seq = seq_of_token[item.first_token];
        EXPECT_EQ(item.query_len, kSeqs[seq].query_len);
        EXPECT_EQ(item.seq_len, kSeqs[seq].kv_len);
        EXPECT_EQ(list == 0, kSeqs[seq].query_len == 1);
        splits[{seq, item.tile}].emplace_back(item.first_key, item.end_key);
      }
    }
    size_t num_tiles = 0;
    for (size_t i = 0; i < kSeqs.size(); ++i) {
      const int list = kSeqs[i].query_len == 1 ? 0 : 1;
      const int32_t seq_tiles =
          CeilDiv(kSeqs[i].query_len * 4, plan->params().lists[list].tile_rows);
      num_tiles += seq_tiles;
      for (int32_t tile = 0; tile < seq_tiles; ++tile) {
        SCOPED_TRACE(testing::Message()
                     << "window " << window << " sequence " << i << " tile " << tile);
        auto& of_tile = splits[{i, tile}];
        ASSERT_FALSE(of_tile.empty());
        if (of_tile.size() == 1) continue;  // the tile is whole
        std::sort(of_tile.begin(), of_tile.end());
        EXPECT_LE(of_tile.front().first, FirstVisibleKey(kSeqs[i], window));
        EXPECT_EQ(of_tile.back().second, kSeqs[i].kv_len);
        for (size_t k = 1; k < of_tile.size(); ++k) {
          EXPECT_EQ(of_tile[k].first, of_tile[k - 1].second);
          EXPECT_EQ(of_tile[k].first - of_tile[k - 1].first, split_tokens[list]);
        }
      }
    }
    EXPECT_EQ(splits.size(), num_tiles);
  }
}

// One tile of a long sequence would leave nearly all of any device idle; many tiles need no cut.
TEST_P(CudaAttentionPlanTest, PromptsAreCutOnlyWhereTilesAreTooFew) {
  const auto num_splits = [this](const std::vector<SeqShape>& seqs) {
    const PagedBatch batch =
        MakePagedBatch(Geometry(16, 8, 128, DType::kBF16), seqs, KvOrder::kHnd, 1, 2);
    const auto plan = Plan(batch);
    const WorkList& work = plan->params().lists[1];
    const WorkListState state = Download<WorkListState>(work.state, 1)[0];
    int32_t most = 0;
    for (const WorkItem& item : Download<WorkItem>(work.items, state.num_items)) {
      EXPECT_EQ(item.partial < 0, item.num_splits == 1);
      most = std::max(most, item.num_splits);
    }
    return most;
  };
  EXPECT_GT(num_splits({{16, 32768}}), 4);
  EXPECT_EQ(num_splits({{16, 256}}), 1);  // as long as the shortest split
  EXPECT_EQ(num_splits({{8192, 8192}}), 1);
  EXPECT_EQ(num_splits(std::vector<SeqShape>(64, {512, 512})), 1);
}

// No such target where there is no GPU.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaAttentionPlanTest);
INSTANTIATE_TEST_SUITE_P(Targets, CudaAttentionPlanTest, testing::ValuesIn(CudaTargets()),
                         TargetName);

}  // namespace
}  // namespace quire::cuda
