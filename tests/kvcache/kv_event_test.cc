// What BlockManager tells of its prefix cache: what a listener hears is what can be found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "kvcache/block_manager.h"

namespace quire {
namespace {

using testing::ElementsAre;

constexpr int32_t kBlockSize = 4;

// Keeps, of what it hears, each block that is still there; every event must make sense.
class Mirror final : public KvEventListener {
 public:
  struct Block {
    std::optional<uint64_t> parent;
    std::vector<TokenId> tokens;
    friend bool operator==(const Block&, const Block&) = default;
  };

  void OnStored(const CachedBlock& block) override {
    ++num_stored;
    const std::vector<TokenId> tokens(block.tokens.begin(), block.tokens.end());
    EXPECT_TRUE(blocks.emplace(block.hash, Block{block.parent, tokens}).second);
  }
  void OnRemoved(uint64_t hash) override {
    ++num_removed;
    EXPECT_EQ(blocks.erase(hash), 1u);
  }
  void OnCleared() override {
    ++num_cleared;
    blocks.clear();
  }

  std::map<uint64_t, Block> blocks;
  int num_stored = 0;
  int num_removed = 0;
  int num_cleared = 0;
};

BlockManagerConfig Config(int64_t num_blocks, std::vector<KvSpec> groups = {{}}) {
  BlockManagerConfig config;
  config.num_blocks = num_blocks;
  config.block_size = kBlockSize;
  config.groups = std::move(groups);
  return config;
}

std::vector<TokenId> Tokens(int64_t num_tokens, TokenId first) {
  std::vector<TokenId> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

void Compute(BlockManager& blocks, const std::vector<TokenId>& tokens, BlockTable* table) {
  blocks.AttachPrefix(tokens, "", table);
  ASSERT_TRUE(blocks.TryGrow(table, tokens.size()));
  blocks.Publish(table, tokens, tokens.size(), "");
  blocks.ReleaseOutsideWindow(table, tokens.size());
}

void ComputeAndRelease(BlockManager& blocks, const std::vector<TokenId>& tokens) {
  BlockTable table;
  Compute(blocks, tokens, &table);
  blocks.Release(&table);
}

std::map<uint64_t, Mirror::Block> StateOf(const BlockManager& blocks) {
  Mirror state;
  blocks.ForEachCachedBlock([&](const CachedBlock& block) {
    if (block.parent.has_value()) {
      EXPECT_TRUE(state.blocks.contains(*block.parent)) << "a child before its parent";
    }
    state.OnStored(block);
  });
  return state.blocks;
}

TEST(KvEventTest, FullBlocksAreToldOnceEachWithItsParentAndTokens) {
  BlockManager blocks(Config(8));
  Mirror mirror;
  blocks.SetEventListener(&mirror);
  ComputeAndRelease(blocks, Tokens(10, 100));
  ComputeAndRelease(blocks, Tokens(10, 100));  // found: nothing new
  EXPECT_EQ(mirror.num_stored, 2);
  ASSERT_EQ(mirror.blocks.size(), 2u);
  for (const auto& [hash, block] : mirror.blocks) {
    if (block.parent.has_value()) {
      EXPECT_TRUE(mirror.blocks.contains(*block.parent));
      EXPECT_THAT(block.tokens, ElementsAre(104, 105, 106, 107));
    } else {
      EXPECT_THAT(block.tokens, ElementsAre(100, 101, 102, 103));
    }
  }
}

TEST(KvEventTest, WhatIsReusedIsRemoved) {
  BlockManager blocks(Config(4));
  Mirror mirror;
  blocks.SetEventListener(&mirror);
  ComputeAndRelease(blocks, Tokens(16, 100));
  EXPECT_EQ(mirror.num_removed, 0);
  ComputeAndRelease(blocks, Tokens(12, 500));
  EXPECT_EQ(mirror.num_removed, 3);
  EXPECT_EQ(mirror.blocks, StateOf(blocks));
  EXPECT_EQ(mirror.blocks.size(), 4u);
}

TEST(KvEventTest, AFlushOfEverythingIsOneEvent) {
  BlockManager blocks(Config(8));
  Mirror mirror;
  blocks.SetEventListener(&mirror);
  blocks.FlushPrefixCache();
  EXPECT_EQ(mirror.num_cleared, 0);  // there was nothing
  ComputeAndRelease(blocks, Tokens(10, 100));
  blocks.FlushPrefixCache();
  EXPECT_EQ(mirror.num_cleared, 1);
  EXPECT_EQ(mirror.num_removed, 0);
  EXPECT_TRUE(StateOf(blocks).empty());
}

TEST(KvEventTest, AFlushKeepsWhatASequenceHolds) {
  BlockManager blocks(Config(8));
  Mirror mirror;
  blocks.SetEventListener(&mirror);
  BlockTable running;
  Compute(blocks, Tokens(8, 100), &running);
  ComputeAndRelease(blocks, Tokens(8, 500));
  blocks.FlushPrefixCache();
  EXPECT_EQ(mirror.num_cleared, 0);
  EXPECT_EQ(mirror.num_removed, 2);
  EXPECT_EQ(mirror.blocks.size(), 2u);
  EXPECT_EQ(mirror.blocks, StateOf(blocks));
  blocks.Release(&running);
}

TEST(KvEventTest, AGroupWithoutAWindowStandsForAll) {
  BlockManager blocks(Config(16, {{.sliding_window = 4}, {}}));
  Mirror mirror;
  blocks.SetEventListener(&mirror);
  ComputeAndRelease(blocks, Tokens(16, 100));
  EXPECT_EQ(mirror.num_stored, 4);
}

TEST(KvEventTest, NobodyIsToldAfterTheListenerHasGone) {
  BlockManager blocks(Config(8));
  Mirror mirror;
  blocks.SetEventListener(&mirror);
  blocks.SetEventListener(nullptr);
  ComputeAndRelease(blocks, Tokens(10, 100));
  EXPECT_EQ(mirror.num_stored, 0);
  EXPECT_EQ(StateOf(blocks).size(), 2u);  // who comes later is told what there is
}

// Whatever happens, what a listener has heard is the state.
TEST(KvEventTest, AMirrorStaysTrue) {
  BlockManager blocks(Config(12));
  Mirror mirror;
  blocks.SetEventListener(&mirror);
  uint32_t random = 1;
  for (int i = 0; i < 500; ++i) {
    random = random * 1664525 + 1013904223;
    const uint32_t draw = random >> 16;
    std::vector<TokenId> tokens = Tokens(4 * (1 + draw % 3), 100);
    const std::vector<TokenId> tail = Tokens(1 + draw % 20, 1000 + 100 * (draw % 7));
    tokens.insert(tokens.end(), tail.begin(), tail.end());
    ComputeAndRelease(blocks, tokens);
    if (draw % 50 == 0) blocks.FlushPrefixCache();
    ASSERT_EQ(mirror.blocks.size(), StateOf(blocks).size()) << i;
  }
  EXPECT_EQ(mirror.blocks, StateOf(blocks));
  EXPECT_GT(mirror.num_removed, 100);
}

}  // namespace
}  // namespace quire
