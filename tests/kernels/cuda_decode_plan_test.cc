// The second path's planning kernel leaves on the device shares whose items cover every tile of
// keys of every unit once, in order, and the block ids that come with a share.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/trtllm/decode_memory.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "tests/kernels/attention_fixture.h"

namespace quire::cuda::trtllm {
namespace {

class CudaDecodePlanTest : public AttentionTest {
 protected:
  // Plans the batch, whose device copies live as long as this.
  std::unique_ptr<DecodeMemory> Plan(const PagedBatch& batch) {
    buffers_[0] = Upload(batch.cu_seqlens_q);
    buffers_[1] = Upload(batch.seq_lens);
    buffers_[2] = Upload(batch.seq_rows);
    buffers_[3] = Upload(batch.block_tables);
    AttentionBatch device = batch.HostBatch();
    device.cu_seqlens_q = buffers_[0].as<int32_t>();
    device.seq_lens = buffers_[1].as<int32_t>();
    device.seq_rows = buffers_[2].as<int32_t>();
    device.block_tables = buffers_[3].as<BlockId>();
    auto plans = DecodeMemory::Create(backend().device(), {batch.geometry}, LimitsOf(batch));
    EXPECT_TRUE(plans.ok()) << plans.status();
    plans->front()->SetBatch(device);
    CudaStream::From(stream()).Run(
        "plan", [&](cudaStream_t s) { LaunchDecodePlan(plans->front()->plan(), s); });
    Synchronize();
    return std::move(plans->front());
  }

 private:
  DeviceBuffer buffers_[4];
};

// An item, and who has it.
struct TakenItem {
  int32_t share;
  DecodeItem item;
};

struct TileRange {
  int32_t first;
  int32_t count;
};

// Of a sequence: those that some query sees; one where there is none.
TileRange TilesOf(const AttentionGeometry& geometry, int32_t query_len, int32_t seq_len) {
  const int64_t first_key =
      geometry.sliding_window > 0
          ? std::max<int64_t>(0, seq_len - (query_len - 1) - geometry.sliding_window)
          : 0;
  const auto first = static_cast<int32_t>(first_key / kTileKeys);
  return {first, std::max(CeilDiv(seq_len, kTileKeys) - first, 1)};
}

void ExpectCovers(const PagedBatch& batch, const DecodeMemory& memory,
                  const std::map<int32_t, std::vector<TakenItem>>& units) {
  const int32_t units_per_seq = memory.plan().units_per_seq;
  ASSERT_EQ(units.size(), batch.seqs.size() * units_per_seq);
  for (const auto& [unit, items] : units) {
    SCOPED_TRACE(unit);
    const int32_t seq = unit / units_per_seq;
    const TileRange tiles = TilesOf(batch.geometry, batch.decode_query_len, batch.seq_lens[seq]);
    int32_t next = tiles.first;
    for (size_t i = 0; i < items.size(); ++i) {
      const DecodeItem& item = items[i].item;
      EXPECT_EQ(item.first_tile, next);
      EXPECT_GE(item.num_tiles, 1);
      EXPECT_EQ(item.num_shares, static_cast<int32_t>(items.size()));
      EXPECT_EQ(item.first_share + static_cast<int32_t>(i), items[i].share);
      EXPECT_EQ(item.unit, unit % units_per_seq);
      EXPECT_EQ(item.seq_len, batch.seq_lens[seq]);
      EXPECT_EQ(item.table_begin, batch.seq_rows[seq] * batch.max_blocks_per_seq);
      EXPECT_EQ(item.first_token, batch.cu_seqlens_q[seq]);
      next += item.num_tiles;
    }
    EXPECT_EQ(next, tiles.first + tiles.count);
  }
}

TEST_P(CudaDecodePlanTest, SharesCoverEveryTileOnce) {
  const std::vector<std::vector<int32_t>> lengths = {
      {1}, {0}, {40000}, {9000, 1, 64, 65, 0, 0, 700}, std::vector<int32_t>(300, 90), {8, 20000}};
  for (const auto& kv_lens : lengths) {
    for (const int32_t query_len : {1, 8}) {
      for (const int64_t window : {0, 700}) {
        SCOPED_TRACE(testing::Message()
                     << kv_lens.size() << " sequences, the first of " << kv_lens[0]
                     << ", query_len " << query_len << ", window " << window);
        AttentionGeometry geometry = Geometry(24, 1, 64, DType::kBF16);
        geometry.sliding_window = window;
        std::vector<SeqShape> seqs;
        for (const int32_t kv_len : kv_lens) seqs.push_back({query_len, kv_len});
        PagedBatch batch = MakePagedBatch(geometry, seqs, KvOrder::kHnd, 1, 2);
        batch.decode_query_len = query_len;
        const auto memory = Plan(batch);
        const DecodePlanParams& plan = memory->plan();
        const auto shares = Download<DecodeShare>(plan.shares, plan.num_ctas);
        std::map<int32_t, std::vector<TakenItem>> units;
        for (int32_t s = 0; s < plan.num_ctas; ++s) {
          const DecodeShareItems& items = shares[s].items;
          for (int32_t i = items.first; i <= items.last; ++i) {
            const auto item = Download<DecodeItem>(plan.items + i, 1)[0];
            units[items.first + items.last - i - s].push_back({s, item});
            // The item that the next share goes on with comes first; the item that an earlier share
            // began comes last.
            const int32_t end_share = item.first_share + item.num_shares - 1;
            EXPECT_TRUE(i == items.first || end_share == s);
            EXPECT_TRUE(i == items.last || item.first_share == s);
          }
          if (items.last < items.first) continue;
          EXPECT_EQ(items.item.first_tile, units[items.last - s].back().item.first_tile);
          // The first block is the sequence's own, unless it has no keys.
          const DecodeItem& item = items.item;
          const BlockId* row = batch.block_tables.data() + item.table_begin;
          const int32_t block = item.first_tile * kTileKeys / geometry.block_size;
          if (item.seq_len == 0) {
            EXPECT_EQ(shares[s].blocks[0], kNoBlock);
          } else if (window == 0) {
            EXPECT_EQ(shares[s].blocks[0], row[block]);
          }
        }
        ExpectCovers(batch, *memory, units);
      }
    }
  }
}

std::vector<KernelTarget> Targets() {
  std::vector<KernelTarget> targets = WithTrtllm(KernelTargets());
  std::erase_if(targets, [](const KernelTarget& t) { return t.path != AttentionPath::kTrtllm; });
  return targets;
}

// No such target where there is no GPU.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaDecodePlanTest);
INSTANTIATE_TEST_SUITE_P(Targets, CudaDecodePlanTest, testing::ValuesIn(Targets()), TargetName);

}  // namespace
}  // namespace quire::cuda::trtllm
