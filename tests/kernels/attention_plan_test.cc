// The CPU's attention work list: complete, without overlap, and cut where one thread would be left
// with too much.
#include "kernels/cpu/attention/attention_plan.h"

#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace quire::cpu {
namespace {

constexpr AttentionGeometry kGeometry = {.num_q_heads = 4,
                                         .num_kv_heads = 1,
                                         .k_head_dim = 64,
                                         .v_head_dim = 64,
                                         .block_size = 16,
                                         .query_dtype = DType::kF32,
                                         .kv_dtype = DType::kF32,
                                         .scale = 1.0f};

// What Build reads, for sequences of (query_len, seq_len).
struct Metadata {
  std::vector<int32_t> cu_seqlens_q = {0};
  std::vector<int32_t> seq_lens;
  std::vector<int32_t> seq_rows;
  AttentionBatch batch = {};

  explicit Metadata(const std::vector<std::pair<int32_t, int32_t>>& seqs) {
    for (auto [query_len, seq_len] : seqs) {
      cu_seqlens_q.push_back(cu_seqlens_q.back() + query_len);
      seq_lens.push_back(seq_len);
      seq_rows.push_back(static_cast<int32_t>(seq_rows.size()));
    }
    batch.num_seqs = static_cast<int32_t>(seqs.size());
    batch.num_tokens = cu_seqlens_q.back();
    batch.cu_seqlens_q = cu_seqlens_q.data();
    batch.seq_lens = seq_lens.data();
    batch.seq_rows = seq_rows.data();
  }
};

WorkPlan BuildPlan(const AttentionGeometry& geometry, const Metadata& metadata, int num_threads) {
  WorkPlan plan(geometry,
                {.max_num_seqs = metadata.batch.num_seqs,
                 .max_num_batched_tokens = metadata.batch.num_tokens,
                 .max_blocks_per_seq = 1},
                std::make_shared<PlanWorkspace>(num_threads, geometry.k_head_dim), Isa::kGeneric);
  plan.Build(metadata.batch);
  return plan;
}

TEST(AttentionPlanTest, PiecesCoverEveryTokenAndSplitOnce) {
  const Metadata metadata({{1, 100'000}, {1, 1}, {1, 0}, {100, 100}, {30, 5000}});
  for (int num_threads : {1, 2, 16}) {
    SCOPED_TRACE(num_threads);
    const WorkPlan plan = BuildPlan(kGeometry, metadata, num_threads);
    std::map<int32_t, std::vector<int64_t>> splits_of_token;
    for (const TileWork& piece : plan.pieces()) {
      EXPECT_LE(piece.num_queries * 4, kMaxQueryRows);
      for (int32_t i = 0; i < piece.num_queries; ++i) {
        auto& splits = splits_of_token[metadata.cu_seqlens_q[piece.seq] + piece.first_query + i];
        for (int64_t s = piece.first_split; s < piece.end_split; ++s) splits.push_back(s);
      }
    }
    ASSERT_EQ(splits_of_token.size(), 133u);  // padding too: its output is zeros
    for (auto& [token, splits] : splits_of_token) {
      std::sort(splits.begin(), splits.end());
      std::vector<int64_t> expected(splits.size());
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(splits, expected) << "token " << token;
    }
    EXPECT_EQ(splits_of_token[0].size(), 98u);
    EXPECT_EQ(splits_of_token[2].size(), 0u);
    EXPECT_EQ(splits_of_token[132].size(), 5u);
  }
}

TEST(AttentionPlanTest, OneLongDecodeIsSharedByAllThreads) {
  const Metadata metadata({{1, 32'768}});
  EXPECT_EQ(BuildPlan(kGeometry, metadata, 1).pieces().size(), 4u);
  const WorkPlan plan = BuildPlan(kGeometry, metadata, 8);
  EXPECT_EQ(plan.pieces().size(), 32u);
  ASSERT_EQ(plan.cut_tiles().size(), 1u);
  // Each piece has its own rows of partial state, in order of splits.
  for (const TileWork& piece : plan.pieces()) EXPECT_EQ(piece.partial_row, piece.first_split * 4);
}

TEST(AttentionPlanTest, EvenWorkIsNotCut) {
  const Metadata metadata(std::vector<std::pair<int32_t, int32_t>>(16, {1, 2048}));
  const WorkPlan plan = BuildPlan(kGeometry, metadata, 2);
  EXPECT_EQ(plan.pieces().size(), 16u);
  EXPECT_TRUE(plan.cut_tiles().empty());
}

TEST(AttentionPlanTest, MostExpensiveFirst) {
  const WorkPlan plan = BuildPlan(kGeometry, Metadata({{1, 10}, {1, 900}, {16, 800}}), 1);
  ASSERT_EQ(plan.pieces().size(), 3u);
  EXPECT_EQ(plan.pieces()[0].seq, 2);
  EXPECT_EQ(plan.pieces()[1].seq, 1);
  EXPECT_EQ(plan.pieces()[2].seq, 0);
}

TEST(AttentionPlanTest, WindowLeavesOutSplits) {
  AttentionGeometry geometry = kGeometry;
  geometry.sliding_window = 1500;
  const WorkPlan plan = BuildPlan(geometry, Metadata({{1, 10'000}}), 8);
  int64_t num_splits = 0;
  for (const TileWork& piece : plan.pieces()) {
    EXPECT_GE(piece.first_split, 8);
    num_splits += piece.end_split - piece.first_split;
  }
  EXPECT_EQ(num_splits, 2);
}

// Room for the partial states of one of the two only: the other is computed whole.
TEST(AttentionPlanTest, CutsNoMoreThanThereIsRoomFor) {
  AttentionGeometry geometry = kGeometry;
  geometry.num_q_heads = 64;
  geometry.num_kv_heads = 4;
  const Metadata metadata({{1, 1'000'000}, {1, 1'000'000}});
  const WorkPlan plan = BuildPlan(geometry, metadata, 24);
  ASSERT_EQ(plan.cut_tiles().size(), 1u);
  EXPECT_GT(plan.pieces().size(), 2u);
  int64_t num_whole = 0;
  for (const TileWork& piece : plan.pieces()) num_whole += piece.partial_row < 0;
  EXPECT_EQ(num_whole, 1);
}

}  // namespace
}  // namespace quire::cpu
