// Layers of different heads, windows and widths in one model, and what each is told of a token.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/sequence_runner.h"

namespace quire {
namespace {

constexpr char kConfigJson[] = R"({"model_type": "qwen3", "vocab_size": 500, "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32})";

// One layer of the three is wider than the others, so that every buffer is too small if it fits
// another one.
TEST(LayerShapesTest, EachLayerHasItsOwn) {
  const TempFolder folder;
  folder.Write("config.json", kConfigJson);
  const std::vector<TokenId> tokens = {5, 17, 400, 3, 99, 250, 7, 8, 61, 300, 2, 444};
  for (const size_t wide : {0, 1, 2}) {
    SCOPED_TRACE(wide);
    const auto widen = [wide](ModelConfig& config) {
      LayerConfig& layer = config.layers[wide];
      layer.gqa.num_q_heads = 6;
      layer.gqa.num_kv_heads = 3;
      layer.gqa.head_dim = 48;
      layer.gqa.rope = 1;
      layer.intermediate_size = 160;
      config.ropes.push_back(config.ropes[0]);
      config.ropes[1].rotary_dim = 48;
      config.ropes[1].pair_distance = 24;
    };
    const auto runner =
        SequenceRunner::Create(folder.path(), {.adjust = widen,
                                               .max_len = static_cast<int64_t>(tokens.size()),
                                               .format = LoadFormat::kDummy});
    ASSERT_TRUE(runner.ok()) << runner.status();
    const Weights& weights = (*runner)->weights();
    for (size_t i = 0; i < 3; ++i) {
      const LayerWeights& layer = weights.layer(static_cast<int>(i));
      EXPECT_EQ(layer.gqa.qkv.out_features, i == wide ? 12 * 48 : 8 * 32);
      EXPECT_EQ(layer.gqa.q_norm.num_elements(), i == wide ? 48 : 32);
      EXPECT_EQ(layer.gated_mlp.down.in_features, i == wide ? 160 : 96);
    }
    const std::vector<float> whole = (*runner)->Append(tokens);
    (*runner)->Restart();
    EXPECT_EQ((*runner)->AppendInChunks(tokens, 5), whole);
    (*runner)->Restart();
    const std::vector<float> last = (*runner)->AppendWanting(1, tokens);
    EXPECT_EQ(last, std::vector<float>(whole.end() - 500, whole.end()));
  }
}

// Rows of the layers' embedding come a thousand at a time.
TEST(LayerShapesTest, InputsOfLayersDoNotDependOnTheStepsLength) {
  const TempFolder folder;
  folder.Write("config.json", R"({"model_type": "gemma4_text", "vocab_size": 500,
      "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
      "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "global_head_dim": 32,
      "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 600, "sliding_window": 50})");
  constexpr int64_t kNumTokens = 1100;
  const auto runner =
      SequenceRunner::Create(folder.path(), {.max_len = kNumTokens, .format = LoadFormat::kDummy});
  ASSERT_TRUE(runner.ok()) << runner.status();
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < kNumTokens; ++i) tokens.push_back(static_cast<TokenId>(i * 7 % 500));
  const std::vector<float> whole = (*runner)->AppendWanting(100, tokens);
  (*runner)->Restart();
  const absl::Span<const TokenId> all = tokens;
  EXPECT_TRUE((*runner)->AppendWanting(0, all.first(kNumTokens - 100)).empty());
  EXPECT_EQ((*runner)->Append(all.last(100)), whole);
}

}  // namespace
}  // namespace quire
