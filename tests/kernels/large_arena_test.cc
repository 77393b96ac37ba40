// Offsets beyond 2^31 elements: what StoreHeads writes to the last block of a large cache and
// what attention finds there are the same as in a small one. Only the blocks in use have memory.
#include <memory>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace quire {
namespace {

constexpr int32_t kQHeads = 16, kKvHeads = 8, kHeadDim = 128, kBlockSize = 16;
constexpr int64_t kBlockStride = 2 * int64_t{kBlockSize} * kKvHeads * kHeadDim;  // K, then V
constexpr BlockId kLastBlock = 70'000;
static_assert(kLastBlock * kBlockStride > int64_t{1} << 31);
constexpr int32_t kNumTokens = 29;  // in two blocks

class LargeArenaTest : public KernelTest {
 protected:
  // A step of one prompt whose second block is `second`: what attention gives.
  std::vector<float> Run(DType dtype, BlockId second) {
    const int64_t block_bytes = kBlockStride * DTypeBytes(dtype);
    const std::unique_ptr<AddressRange> memory = MapBlocks(block_bytes, {0, second});
    const HeadsView keys = {.data = memory->data(),
                            .block_stride = kBlockStride,
                            .token_stride = kHeadDim,
                            .head_stride = int64_t{kBlockSize} * kHeadDim,
                            .head_dim = kHeadDim};
    KvCacheView cache = {
        .k = keys, .v = keys, .dtype = dtype, .block_size = kBlockSize, .num_kv_heads = kKvHeads};
    cache.v.data = static_cast<char*>(memory->data()) + block_bytes / 2;
    std::vector<int64_t> positions, slots;
    for (int64_t i = 0; i < kNumTokens; ++i) {
      positions.push_back(i);
      slots.push_back((i < kBlockSize ? 0 : int64_t{second}) * kBlockSize + i % kBlockSize);
    }
    const int64_t qkv_size = (kQHeads + 2 * kKvHeads) * kHeadDim;
    const DeviceTensor qkv =
        UploadTensor(RandomNormal(kNumTokens * qkv_size, 5), dtype, {kNumTokens, qkv_size});
    const DeviceTensor q = UploadTensor(std::vector<float>(kNumTokens * kQHeads * kHeadDim), dtype,
                                        {kNumTokens, kQHeads, kHeadDim});
    const DeviceTensor out = UploadTensor(std::vector<float>(kNumTokens * kQHeads * kHeadDim),
                                          dtype, {kNumTokens, kQHeads, kHeadDim});
    const DeviceBuffer table = Upload(std::vector<float>(kNumTokens * kHeadDim, 0.7f));
    const DeviceBuffer device_positions = Upload(positions), device_slots = Upload(slots);
    const auto heads = [](int32_t num_heads, int64_t num_before, bool rotate) {
      return HeadsArgs{.num_heads = num_heads,
                       .first = num_before * kHeadDim,
                       .stride = kHeadDim,
                       .rotate = rotate};
    };
    ops().StoreHeads(stream(), {.x = qkv.tensor,
                                .q = heads(kQHeads, 0, true),
                                .k = heads(kKvHeads, kQHeads, true),
                                .v = heads(kKvHeads, kQHeads + kKvHeads, false),
                                .cos_sin = table.as<float>(),
                                .num_pairs = kHeadDim / 2,
                                .pair_distance = kHeadDim / 2,
                                .positions = device_positions.as<int64_t>(),
                                .slot_mapping = device_slots.as<int64_t>(),
                                .kv_cache = cache,
                                .q_out = q.tensor});
    Attend(dtype, second, {.q = q.tensor, .kv_cache = cache, .out = out.tensor});
    return DownloadTensor(out.tensor);
  }

 private:
  std::unique_ptr<AddressRange> MapBlocks(int64_t block_bytes, const std::vector<BlockId>& blocks) {
    Device& device = backend().device();
    const int64_t granularity = device.info().map_granularity_bytes;
    const int64_t size_bytes = RoundUp((blocks.back() + int64_t{1}) * block_bytes, granularity);
    std::unique_ptr<AddressRange> memory = device.ReserveAddresses(size_bytes).value();
    int64_t mapped_until = 0;
    for (const BlockId block : blocks) {
      const int64_t begin = std::max(mapped_until, block * block_bytes / granularity * granularity);
      mapped_until = RoundUp((block + int64_t{1}) * block_bytes, granularity);
      if (begin < mapped_until) {
        EXPECT_TRUE(memory->Map(begin, mapped_until - begin).ok()) << "block " << block;
      }
    }
    return memory;
  }

  void Attend(DType dtype, BlockId second, const AttentionRunArgs& args) {
    const auto plan = attention().CreatePlan(
        {.num_q_heads = kQHeads,
         .num_kv_heads = kKvHeads,
         .k_head_dim = kHeadDim,
         .v_head_dim = kHeadDim,
         .block_size = kBlockSize,
         .query_dtype = dtype,
         .kv_dtype = dtype,
         .scale = 0.1f},
        {.max_num_seqs = 2, .max_num_batched_tokens = kNumTokens, .max_blocks_per_seq = 2});
    ASSERT_TRUE(plan.ok()) << plan.status();
    // The last token as a decode, and the prompt before it.
    const DeviceBuffer cu_seqlens_q = Upload(std::vector<int32_t>{0, 1, kNumTokens});
    const DeviceBuffer seq_lens = Upload(std::vector<int32_t>{kNumTokens, kNumTokens - 1});
    const DeviceBuffer seq_rows = Upload(std::vector<int32_t>{0, 0});
    const DeviceBuffer block_tables = Upload(std::vector<BlockId>{0, second});
    (*plan)->PlanStep(stream(), {.num_seqs = 2,
                                 .num_tokens = kNumTokens,
                                 .num_decodes = 1,
                                 .cu_seqlens_q = cu_seqlens_q.as<int32_t>(),
                                 .seq_lens = seq_lens.as<int32_t>(),
                                 .seq_rows = seq_rows.as<int32_t>(),
                                 .block_tables = block_tables.as<BlockId>(),
                                 .block_table_stride = 2});
    (*plan)->Run(stream(), args);
    Synchronize();
  }
};

TEST_P(LargeArenaTest, TheLastBlockIsWhereItShouldBe) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const std::vector<float> small = Run(dtype, 1);
    const std::vector<float> large = Run(dtype, kLastBlock);
    EXPECT_EQ(small, large) << DTypeName(dtype);
    EXPECT_NE(small, std::vector<float>(small.size(), 0.0f));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, LargeArenaTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
