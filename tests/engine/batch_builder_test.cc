#include "engine/runner/batch_builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/runner/step_graphs.h"

namespace quire {
namespace {

// A sequence of the step under test; keeps alive what the ScheduledSequence points to.
struct TestSequence {
  Request request;
  std::vector<TokenId> tokens;
  std::vector<std::vector<BlockId>> blocks;
  ScheduledSequence scheduled = {};

  TestSequence(int64_t num_tokens, int32_t row, int64_t start, int64_t num_new,
               std::vector<std::vector<BlockId>> block_tables)
      : blocks(std::move(block_tables)) {
    for (int64_t i = 0; i < num_tokens; ++i) tokens.push_back(static_cast<TokenId>(100 * row + i));
    request.prompt = tokens;
    scheduled.row = row;
    scheduled.start = start;
    scheduled.num_new = num_new;
    scheduled.num_prompt_tokens = num_tokens;
    scheduled.num_samples = start + num_new >= num_tokens ? 1 : 0;
  }
  ScheduledSequence Get() {
    scheduled.request = &request;
    scheduled.tokens = tokens;
    scheduled.block_tables.clear();
    for (const auto& table : blocks) scheduled.block_tables.push_back(table);
    return scheduled;
  }
};

class BatchBuilderTest : public ::testing::Test {
 protected:
  static BatchLimits Limits() {
    return {.max_num_seqs = 4,
            .max_num_batched_tokens = 64,
            .max_blocks_per_seq = 16,
            .block_size = 4,
            .num_groups = 2,
            .max_block_updates = 64,
            .max_bias_per_seq = 8};
  }
  BatchMetadata Build(std::vector<TestSequence*> sequences, const BatchLimits& limits = Limits()) {
    SchedulerOutput output;
    for (TestSequence* sequence : sequences) {
      output.sequences.push_back(sequence->Get());
      output.num_tokens += sequence->scheduled.num_new;
    }
    buffer_.assign(BatchLayout(MaxShape(limits)).size_bytes(), 0);
    BatchBuilder builder(limits, uniform_sizes_);
    const BatchMetadata batch =
        builder.Build(output, buffer_.data(), [this](absl::Span<const BlockTableUpdate> updates) {
          ++num_sent_;
          Apply(updates);
        });
    arrays_ = BatchLayout(batch.shape).At(buffer_.data());
    Apply({arrays_.block_updates, static_cast<size_t>(batch.num_block_updates)});
    return batch;
  }
  void Apply(absl::Span<const BlockTableUpdate> updates) {
    for (const BlockTableUpdate& update : updates) {
      EXPECT_GE(update.index, 0);
      tables_[{update.group, update.row, update.index}] = update.block;
    }
  }

  std::vector<UniformSize> uniform_sizes_;
  std::vector<char> buffer_;
  BatchArrays arrays_;
  int num_sent_ = 0;
  std::map<std::tuple<int, int, int>, BlockId> tables_;  // (group, row, index) -> block
};

// The worked example of the attention requirements, with the corrected numbers: decodes of 1,024
// and 2,048 tokens, prompts of 512 and 256, blocks of 16. Its kernels are attention_test's.
TEST_F(BatchBuilderTest, WorkedExample) {
  const BatchLimits limits = {.max_num_seqs = 4,
                              .max_num_batched_tokens = 1024,
                              .max_blocks_per_seq = 128,
                              .block_size = 16,
                              .num_groups = 1,
                              .max_block_updates = 1024,
                              .max_bias_per_seq = 1};
  // Blocks from the last to the first, so that no order is right by accident.
  BlockId next_block = 240;
  const auto take = [&](int num_blocks) {
    std::vector<BlockId> blocks;
    while (num_blocks-- > 0) blocks.push_back(--next_block);
    return std::vector<std::vector<BlockId>>{blocks};
  };
  TestSequence r1(1024, 3, 1023, 1, take(64)), r2(2048, 1, 2047, 1, take(128));
  TestSequence r3(512, 0, 0, 512, take(32)), r4(256, 2, 0, 256, take(16));
  const BatchMetadata batch = Build({&r1, &r2, &r3, &r4}, limits);
  EXPECT_EQ(batch.num_tokens, 770);
  EXPECT_EQ(batch.num_seqs, 4);
  EXPECT_EQ(batch.num_decodes, 2);
  EXPECT_EQ(std::vector<int32_t>(arrays_.cu_seqlens_q, arrays_.cu_seqlens_q + 5),
            (std::vector<int32_t>{0, 1, 2, 514, 770}));
  EXPECT_EQ(std::vector<int32_t>(arrays_.seq_lens, arrays_.seq_lens + 4),
            (std::vector<int32_t>{1024, 2048, 512, 256}));
  EXPECT_EQ(arrays_.positions[0], 1023);
  EXPECT_EQ(arrays_.positions[1], 2047);
  EXPECT_EQ(arrays_.positions[2], 0);
  EXPECT_EQ(arrays_.positions[513], 511);
  EXPECT_EQ(arrays_.positions[514], 0);
  EXPECT_EQ(arrays_.positions[769], 255);
  EXPECT_EQ(arrays_.slot_mapping[0], int64_t{r1.blocks[0][63]} * 16 + 15);
  EXPECT_EQ(arrays_.slot_mapping[1], int64_t{r2.blocks[0][127]} * 16 + 15);
  for (int token = 0; token < 512; ++token) {
    ASSERT_EQ(arrays_.slot_mapping[2 + token], r3.blocks[0][token / 16] * 16 + token % 16);
  }
  for (int token = 0; token < 256; ++token) {
    ASSERT_EQ(arrays_.slot_mapping[514 + token], r4.blocks[0][token / 16] * 16 + token % 16);
  }
  EXPECT_EQ(tables_.size(), 240u);
  EXPECT_EQ((tables_[{0, 3, 63}]), r1.blocks[0][63]);
  EXPECT_EQ((tables_[{0, 1, 127}]), r2.blocks[0][127]);
}

TEST_F(BatchBuilderTest, StatesGoWithTheirSequencesAndPaddingHasNone) {
  BatchLimits limits = Limits();
  limits.snapshot_grid = 8;
  TestSequence decode(9, 2, 8, 1, {{7, 3, 5}, {1, 2, 4}});
  decode.scheduled.state_in = 6;
  decode.scheduled.state_out = 6;
  TestSequence chunk(40, 0, 4, 30, {{9, 8, 6, 10, 1, 2, 3, 4, 5}, {9, 8, 6, 10, 1, 2, 3, 4, 5}});
  chunk.scheduled.state_in = 3;
  chunk.scheduled.state_out = 4;
  chunk.scheduled.snapshots = {{4, 10}, {28, 11}};
  TestSequence first(3, 1, 0, 3, {{20}, {21}});
  first.scheduled.state_out = 5;
  first.scheduled.snapshots = {{3, 12}};
  Build({&decode, &chunk, &first}, limits);
  const auto state = [this](int i) {
    const StateAccess& access = arrays_.states[i];
    return std::vector<int32_t>{access.read, access.write, access.first_snapshot,
                                access.num_snapshots};
  };
  EXPECT_EQ(state(0), (std::vector<int32_t>{6, 6, 0, 0}));
  EXPECT_EQ(state(1), (std::vector<int32_t>{3, 4, 0, 2}));
  EXPECT_EQ(state(2), (std::vector<int32_t>{kNoState, 5, 2, 1}));
  EXPECT_EQ(arrays_.snapshots[0].num_tokens, 4);
  EXPECT_EQ(arrays_.snapshots[0].slot, 10);
  EXPECT_EQ(arrays_.snapshots[1].slot, 11);
  EXPECT_EQ(arrays_.snapshots[2].slot, 12);

  uniform_sizes_ = {{1, 4}};
  decode.scheduled.snapshots = {{1, 13}};
  const BatchMetadata padded = Build({&decode}, limits);
  ASSERT_EQ(padded.shape.num_states, 4);
  EXPECT_EQ(padded.shape.num_snapshots, 4);  // every decode may leave one
  EXPECT_EQ(state(0), (std::vector<int32_t>{6, 6, 0, 1}));
  EXPECT_EQ(arrays_.snapshots[0].slot, 13);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(state(i), (std::vector<int32_t>{kNoState, kNoState, 0, 0}));
  EXPECT_EQ(Build({&decode}).shape.num_states, 0);  // of a model that keeps none
}

TEST_F(BatchBuilderTest, MixesADecodeWithAChunk) {
  TestSequence decode(9, 2, 8, 1, {{7, 3, 5}, {1, 2, 4}});
  TestSequence chunk(20, 0, 4, 10, {{9, 8, 6, 10}, {11, 12, 13, 14}});
  chunk.scheduled.first_new_block = 1;
  const BatchMetadata batch = Build({&decode, &chunk});
  EXPECT_EQ(batch.num_seqs, 2);
  EXPECT_EQ(batch.num_tokens, 11);
  EXPECT_EQ(batch.num_decodes, 1);
  EXPECT_EQ(batch.num_sampled_rows, 1);  // the chunk ends before its prompt does
  EXPECT_EQ(batch.logit_rows[1].sampled, -1);
  EXPECT_EQ(arrays_.logits_indices[0], 0);
  EXPECT_EQ(arrays_.seq_rows[0], 2);
  EXPECT_EQ(arrays_.seq_lens[0], 9);
  EXPECT_EQ(arrays_.seq_lens[1], 14);
  EXPECT_EQ(arrays_.cu_seqlens_q[2], 11);
  EXPECT_EQ(arrays_.input_ids[0], 208);
  EXPECT_EQ(arrays_.input_ids[1], 4);
  EXPECT_EQ(arrays_.positions[0], 8);
  EXPECT_EQ(arrays_.positions[10], 13);
  // slot = block * block_size + offset, per group; slot_mapping is [num_groups, num_tokens].
  EXPECT_EQ(arrays_.slot_mapping[0], 5 * 4 + 0);
  EXPECT_EQ(arrays_.slot_mapping[11 + 0], 4 * 4 + 0);
  EXPECT_EQ(arrays_.slot_mapping[1], 8 * 4 + 0);
  EXPECT_EQ(arrays_.slot_mapping[11 + 10], 14 * 4 + 1);
  // Only blocks from first_new_block on travel.
  EXPECT_EQ(tables_.size(), 6u + 6u);
  EXPECT_EQ((tables_[{0, 0, 1}]), 8);
  EXPECT_EQ((tables_.count({0, 0, 0})), 0u);
}

TEST_F(BatchBuilderTest, AChunkMayBeginAndEndWithinBlocks) {
  TestSequence chunk(20, 0, 6, 8, {{9, 8, 6, 10}, {11, 12, 13, 14}});
  Build({&chunk});
  const std::vector<int64_t> slots(arrays_.slot_mapping, arrays_.slot_mapping + 16);
  EXPECT_EQ(slots, (std::vector<int64_t>{34, 35, 24, 25, 26, 27, 40, 41,  //
                                         50, 51, 52, 53, 54, 55, 56, 57}));
  const std::vector<int64_t> positions(arrays_.positions, arrays_.positions + 8);
  EXPECT_EQ(positions, (std::vector<int64_t>{6, 7, 8, 9, 10, 11, 12, 13}));
}

TEST_F(BatchBuilderTest, BlocksOfATableThatShrankAndGrewAreSentAgain) {
  TestSequence before(9, 2, 8, 1, {{7, 3, 5}, {1, 2, 4}});
  Build({&before});
  TestSequence after(9, 2, 8, 1, {{7, 3, 9}, {1, 2, 10}});
  after.scheduled.first_new_block = 2;
  Build({&after});
  EXPECT_EQ((tables_[{0, 2, 1}]), 3);
  EXPECT_EQ((tables_[{0, 2, 2}]), 9);
  EXPECT_EQ((tables_[{1, 2, 2}]), 10);
  EXPECT_EQ(arrays_.slot_mapping[0], 9 * 4 + 0);
}

TEST_F(BatchBuilderTest, TokenStillOnTheDeviceIsItsRow) {
  TestSequence decode(8, 3, 8, 1, {{1, 2, 3}, {4, 5, 6}});
  decode.scheduled.input_on_device = true;
  Build({&decode});
  EXPECT_EQ(arrays_.input_ids[0], ~3);
}

TEST_F(BatchBuilderTest, DecodeStepsArePaddedToTheNextSize) {
  uniform_sizes_ = {{1, 1}, {1, 4}};
  TestSequence first(9, 2, 8, 1, {{7, 3, 5}, {1, 2, 4}});
  first.scheduled.first_new_block = 2;
  first.request.sampling.logit_bias = {{5, 1.5f}};
  TestSequence second(6, 3, 5, 1, {{8, 6}, {9, 10}});
  second.scheduled.first_new_block = 2;
  const BatchMetadata batch = Build({&first, &second});
  EXPECT_EQ(batch.uniform_size, 1);
  EXPECT_EQ(batch.num_seqs, 2);
  EXPECT_EQ(batch.num_logit_rows, 2);
  EXPECT_EQ(batch.num_block_updates, 2);
  EXPECT_EQ(batch.shape.num_seqs, 4);
  // Lengths of a full step of that size, so that both find every array at the same place.
  const BatchArrays full = BatchLayout(FullUniformBatch(Limits(), {1, 4}).shape).At(buffer_.data());
  EXPECT_EQ(full.bias, arrays_.bias);
  EXPECT_EQ(full.block_updates, arrays_.block_updates);
  EXPECT_EQ(full.sampling, arrays_.sampling);
  EXPECT_EQ(arrays_.slot_mapping[4 + 0], 4 * 4 + 0);  // group 1 begins after the padded tokens
  EXPECT_EQ(arrays_.bias[0].token, 5);
  for (int i = 2; i < 4; ++i) {
    EXPECT_EQ(arrays_.seq_lens[i], 0);
    EXPECT_EQ(arrays_.cu_seqlens_q[i + 1], i + 1);
    EXPECT_EQ(arrays_.slot_mapping[i], -1);
    EXPECT_EQ(arrays_.slot_mapping[4 + i], -1);
    EXPECT_EQ(arrays_.sampling[i].row, -1);
    EXPECT_EQ(arrays_.logits_indices[i], i);
  }
  for (int64_t i = 2; i < batch.shape.num_block_updates; ++i) {
    EXPECT_EQ(arrays_.block_updates[i].index, -1);
  }
}

TEST_F(BatchBuilderTest, OnlyUniformStepsThatFitArePadded) {
  uniform_sizes_ = {{1, 1}, {1, 2}};
  TestSequence decode(9, 2, 8, 1, {{7, 3, 5}, {1, 2, 4}});
  decode.scheduled.first_new_block = 3;
  EXPECT_EQ(Build({&decode}).uniform_size, 0);
  TestSequence chunk(20, 0, 4, 10, {{9, 8, 6, 10}, {11, 12, 13, 14}});
  chunk.scheduled.first_new_block = 4;
  EXPECT_EQ(Build({&decode, &chunk}).uniform_size, -1);
  TestSequence unfinished(20, 0, 4, 1, {{9, 8}, {11, 12}});  // one token, but nothing to sample
  unfinished.scheduled.first_new_block = 2;
  EXPECT_EQ(Build({&decode, &unfinished}).uniform_size, -1);
  TestSequence scored(6, 0, 4, 1, {{1, 2}, {3, 4}});
  scored.scheduled.first_new_block = 2;
  scored.scheduled.num_samples = 1;
  scored.scheduled.wants_prompt_logprobs = true;
  EXPECT_EQ(Build({&decode, &scored}).uniform_size, -1);
  TestSequence resumed(9, 2, 8, 1, {{7, 3, 5}, {1, 2, 4}});  // all its blocks travel
  EXPECT_EQ(Build({&resumed}).uniform_size, -1);
  TestSequence second(9, 1, 8, 1, {{7, 3, 5}, {1, 2, 4}});
  TestSequence third(9, 0, 8, 1, {{7, 3, 5}, {1, 2, 4}});
  second.scheduled.first_new_block = third.scheduled.first_new_block = 3;
  EXPECT_EQ(Build({&decode, &second, &third}).uniform_size, -1);
}

TEST_F(BatchBuilderTest, UniformStepsOfSeveralTokensArePaddedToTheirSizes) {
  uniform_sizes_ = {{1, 1}, {1, 4}, {3, 1}, {3, 4}};
  TestSequence first(11, 2, 8, 3, {{7, 3, 5}, {1, 2, 4}});
  TestSequence second(6, 3, 3, 3, {{8, 6}, {9, 10}});
  first.scheduled.first_new_block = 2;
  second.scheduled.first_new_block = 1;
  const BatchMetadata batch = Build({&first, &second});
  EXPECT_EQ(batch.uniform_size, 3);
  EXPECT_EQ(batch.num_decodes, 0);
  EXPECT_EQ(batch.num_tokens, 6);
  EXPECT_EQ(batch.shape.num_tokens, 12);
  const BatchArrays full = BatchLayout(FullUniformBatch(Limits(), {3, 4}).shape).At(buffer_.data());
  EXPECT_EQ(full.bias, arrays_.bias);
  EXPECT_EQ(arrays_.logits_indices[0], 2);
  EXPECT_EQ(arrays_.logits_indices[1], 5);
  for (int i = 2; i < 4; ++i) {
    EXPECT_EQ(arrays_.seq_lens[i], 0);
    EXPECT_EQ(arrays_.cu_seqlens_q[i + 1], 6);
    EXPECT_LT(arrays_.logits_indices[i], 12);
  }
  for (int i = 6; i < 12; ++i) {
    EXPECT_EQ(arrays_.slot_mapping[i], -1);
    EXPECT_EQ(arrays_.slot_mapping[12 + i], -1);
    EXPECT_EQ(arrays_.input_ids[i], 0);
  }
  EXPECT_EQ(Build({&first}).uniform_size, 2);
  TestSequence decode(9, 1, 8, 1, {{7, 3, 5}, {1, 2, 4}});
  decode.scheduled.first_new_block = 3;
  EXPECT_EQ(Build({&decode, &first}).uniform_size, -1);
  TestSequence other(6, 3, 4, 2, {{8, 6}, {9, 10}});  // no size of its query length
  other.scheduled.first_new_block = 2;
  EXPECT_EQ(Build({&other}).uniform_size, -1);
}

TEST(UniformSizesTest, AreAscendingAndEndWithTheMaximum) {
  const auto sizes_for = [](int64_t max_num_seqs) {
    return UniformSizes({1}, {.max_num_seqs = max_num_seqs, .max_num_batched_tokens = 8192});
  };
  EXPECT_EQ(sizes_for(1), (std::vector<UniformSize>{{1, 1}}));
  EXPECT_EQ(sizes_for(20),
            (std::vector<UniformSize>{{1, 1}, {1, 2}, {1, 4}, {1, 8}, {1, 16}, {1, 20}}));
  for (const int64_t max_num_seqs : {3, 8, 64, 250, 1024}) {
    const std::vector<UniformSize> sizes = sizes_for(max_num_seqs);
    EXPECT_EQ(sizes.back().num_seqs, max_num_seqs);
    for (size_t i = 1; i < sizes.size(); ++i) {
      EXPECT_GT(sizes[i].num_seqs, sizes[i - 1].num_seqs);
      EXPECT_LE(sizes[i].num_seqs, std::max(sizes[i - 1].num_seqs + 64, 8));
    }
  }
}

TEST(UniformSizesTest, SeveralTokensEachStayWithinTheStepsTokens) {
  EXPECT_EQ(UniformSizes({1, 4, 32}, {.max_num_seqs = 3, .max_num_batched_tokens = 8}),
            (std::vector<UniformSize>{{1, 1}, {1, 2}, {1, 3}, {4, 1}, {4, 2}}));
}

TEST_F(BatchBuilderTest, ManyBlockUpdatesAreSentInPieces) {
  BatchLimits limits = Limits();
  limits.max_block_updates = 5;
  TestSequence first(9, 2, 8, 1, {{7, 3, 5}, {1, 2, 4}});
  TestSequence second(20, 0, 4, 10, {{9, 8, 6, 10}, {11, 12, 13, 14}});
  Build({&first, &second}, limits);
  EXPECT_EQ(num_sent_, 2);
  EXPECT_EQ(tables_.size(), 14u);
  EXPECT_EQ((tables_[{1, 0, 3}]), 14);
  EXPECT_EQ((tables_[{0, 2, 0}]), 7);
}

TEST_F(BatchBuilderTest, BiasAndBansOfEndTokens) {
  TestSequence plain(4, 0, 0, 4, {{1}, {2}});
  TestSequence banned(4, 1, 0, 4, {{3}, {4}});
  banned.request.sampling.logit_bias = {{5, 1.5f}};
  banned.request.stop.min_tokens = 2;
  banned.request.stop.eos_token_ids = {6};
  banned.request.stop.stop_token_ids = {7};
  banned.scheduled.num_generated = 1;
  Build({&plain, &banned});
  EXPECT_EQ(arrays_.sampling[0].num_bias, 0);
  ASSERT_EQ(arrays_.sampling[1].num_bias, 3);
  const LogitBias* bias = arrays_.bias + arrays_.sampling[1].bias_begin;
  EXPECT_EQ(bias[0].token, 5);
  EXPECT_EQ(bias[0].bias, 1.5f);
  EXPECT_EQ(bias[1].token, 6);
  EXPECT_TRUE(std::isinf(bias[2].bias) && bias[2].bias < 0);
  banned.scheduled.num_generated = 2;  // enough now: only the client's bias is left
  Build({&banned});
  EXPECT_EQ(arrays_.sampling[0].num_bias, 1);
}

TEST_F(BatchBuilderTest, PromptScoringRowsFollowTheSamplingRows) {
  TestSequence scored(6, 0, 2, 4, {{1, 2}, {3, 4}});
  scored.request.sampling.prompt_logprobs = 2;
  scored.scheduled.wants_prompt_logprobs = true;
  TestSequence other(3, 1, 0, 3, {{5}, {6}});
  const BatchMetadata batch = Build({&scored, &other});
  EXPECT_EQ(batch.num_sampled_rows, 2);
  EXPECT_EQ(batch.num_logit_rows, 5);  // tokens 3, 4, 5 are scored; the last position samples
  EXPECT_EQ(batch.logit_rows[0].first_scored, 2);
  EXPECT_EQ(batch.logit_rows[0].num_scored, 3);
  EXPECT_EQ(arrays_.sampling[2].target, 3);
  EXPECT_EQ(arrays_.sampling[4].target, 5);
  EXPECT_EQ(arrays_.sampling[4].row, -1);
  EXPECT_EQ(arrays_.logits_indices[2], 0);
  EXPECT_EQ(arrays_.logits_indices[4], 2);
  EXPECT_EQ(arrays_.logits_indices[1], 6);
  EXPECT_TRUE(batch.any_logprobs);
}

TEST_F(BatchBuilderTest, ContinuationsDrawFromDifferentSeeds) {
  EXPECT_EQ(ContinuationSeed(42, 0), 42u);
  EXPECT_NE(ContinuationSeed(42, 1), ContinuationSeed(42, 2));
  EXPECT_NE(ContinuationSeed(42, 1), ContinuationSeed(43, 1));
}

}  // namespace
}  // namespace quire
