// The decoder against what transformers computed in float32 for the checkpoints in golden/ (made by
// tools/make_test_vectors.py): one of each family, and together every kind of rope, bias, window,
// weight dtype and file layout.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/model/expected_logprobs.h"
#include "tests/engine/model/sequence_runner.h"

namespace quire {
namespace {

constexpr size_t kNumPromptTokens = 9;  // before decodes
constexpr char kGoldenFolder[] = "tests/engine/model/golden/";

// Sets what no supported family has; tiny_variants.py does the same.
void AddVariant(const std::string& name, ModelConfig& config) {
  if (name == "llama_sinks_windows_yarn") config.attention_sinks = true;
  if (name == "llama_kv_sharing") {
    config.layers[2].gqa.kv_sharing_target = 0;
    config.layers[3].gqa.kv_sharing_target = 1;
  }
}

class DecoderGoldenTest : public testing::TestWithParam<std::tuple<const char*, DeviceKind>> {
 protected:
  std::unique_ptr<SequenceRunner> Open(DType dtype, bool replay_decodes = false,
                                       AttentionPath path = AttentionPath::kNative) {
    auto runner = SequenceRunner::Create(
        folder_,
        {.dtype = dtype,
         .adjust = [](ModelConfig& config) { AddVariant(std::get<0>(GetParam()), config); },
         .max_len = 256,
         .device = device_,
         .path = path,
         .replay_decodes = replay_decodes});
    if (!runner.ok()) ADD_FAILURE() << runner.status();
    return runner.ok() ? std::move(*runner) : nullptr;
  }

  const DeviceKind device_ = std::get<1>(GetParam());
  const std::string folder_ = std::string(kGoldenFolder) + std::get<0>(GetParam());
  const ExpectedLogprobs expected_ = LoadExpectedLogprobs(folder_);
};

TEST_P(DecoderGoldenTest, Float32MatchesTransformers) {
  const auto runner = Open(DType::kF32);
  ASSERT_NE(runner, nullptr);
  const std::vector<float> actual = runner->Append(expected_.tokens);
  ASSERT_EQ(actual.size(), expected_.logprobs.size());
  // On a GPU a row may be summed in any order.
  EXPECT_LE(CompareLogprobs(actual, expected_.logprobs).max,
            device_ == DeviceKind::kCpu ? 1e-4 : 1e-3);
}

TEST_P(DecoderGoldenTest, BFloat16IsNoFurtherOffThanTransformers) {
  const auto runner = Open(DType::kBF16);
  ASSERT_NE(runner, nullptr);
  const std::vector<float> actual = runner->Append(expected_.tokens);
  ASSERT_EQ(actual.size(), expected_.logprobs.size());
  const LogprobDifference difference = CompareLogprobs(actual, expected_.logprobs);
  // Both round at other places, so neither is always the better one.
  EXPECT_LE(difference.max, 2.0 * expected_.bfloat16_error.max);
  EXPECT_LE(difference.mean, 1.3 * expected_.bfloat16_error.mean);
}

// A prompt, then steps of one token each, which replay what the first of them captured.
TEST_P(DecoderGoldenTest, ReplayedDecodesMatchTransformers) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto runner = Open(dtype, /*replay_decodes=*/true);
    ASSERT_NE(runner, nullptr);
    const std::vector<float> actual =
        runner->AppendPromptAndDecodes(expected_.tokens, kNumPromptTokens);
    ASSERT_EQ(actual.size(), expected_.logprobs.size());
    const LogprobDifference difference = CompareLogprobs(actual, expected_.logprobs);
    if (dtype == DType::kF32) {
      EXPECT_LE(difference.max, device_ == DeviceKind::kCpu ? 1e-4 : 1e-3);
    } else {
      EXPECT_LE(difference.max, 2.0 * expected_.bfloat16_error.max);
      EXPECT_LE(difference.mean, 1.3 * expected_.bfloat16_error.mean);
    }
  }
}

// The same on the second path, for the head sizes that it has.
TEST_P(DecoderGoldenTest, SecondPathMatchesTransformers) {
  if (device_ == DeviceKind::kCpu) GTEST_SKIP() << "the CPU has one path";
  const int64_t head_dim = MaxHeadDim(*LoadModelConfig(folder_));
  if (head_dim != 64 && head_dim != 128 && head_dim != 256) GTEST_SKIP() << "no such head size";
  const auto runner = Open(DType::kBF16, /*replay_decodes=*/true, AttentionPath::kTrtllm);
  ASSERT_NE(runner, nullptr);
  const std::vector<float> actual =
      runner->AppendPromptAndDecodes(expected_.tokens, kNumPromptTokens);
  ASSERT_EQ(actual.size(), expected_.logprobs.size());
  const LogprobDifference difference = CompareLogprobs(actual, expected_.logprobs);
  EXPECT_LE(difference.max, 2.0 * expected_.bfloat16_error.max);
  EXPECT_LE(difference.mean, 1.3 * expected_.bfloat16_error.mean);
}

// Eight times as fine as bfloat16; half of what that is off leaves room for chance.
TEST_P(DecoderGoldenTest, Float16IsFinerThanBFloat16) {
  if (device_ == DeviceKind::kCpu) GTEST_SKIP() << "the CPU does not compute in float16";
  const auto runner = Open(DType::kF16);
  ASSERT_NE(runner, nullptr);
  const std::vector<float> actual = runner->Append(expected_.tokens);
  ASSERT_EQ(actual.size(), expected_.logprobs.size());
  const LogprobDifference difference = CompareLogprobs(actual, expected_.logprobs);
  EXPECT_LE(difference.max, 0.5 * expected_.bfloat16_error.max);
  EXPECT_LE(difference.mean, 0.5 * expected_.bfloat16_error.mean);
}

// States are rounded after each token. The effect of this rounding by itself goes into the test's
// XML.
TEST_P(DecoderGoldenTest, StatesOf16BitsRoundNoMoreThanActivationsDo) {
  if (device_ != DeviceKind::kCuda) GTEST_SKIP() << "states are float32 on the CPU";
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(folder_);
  ASSERT_TRUE(config.ok()) << config.status();
  if (!HasState(*config)) GTEST_SKIP() << "no layer keeps a state";
  const auto runner = SequenceRunner::Create(
      folder_,
      {.dtype = DType::kF32, .max_len = 256, .device = device_, .state_dtype = DType::kBF16});
  ASSERT_TRUE(runner.ok()) << runner.status();
  const std::vector<float> actual =
      (*runner)->AppendPromptAndDecodes(expected_.tokens, kNumPromptTokens);
  const LogprobDifference difference = CompareLogprobs(actual, expected_.logprobs);
  RecordProperty("max", absl::StrCat(difference.max));
  RecordProperty("mean", absl::StrCat(difference.mean));
  RecordProperty("bfloat16_mean", absl::StrCat(expected_.bfloat16_error.mean));
  EXPECT_LE(difference.max, expected_.bfloat16_error.max);
  EXPECT_LE(difference.mean, expected_.bfloat16_error.mean);
  EXPECT_GT(difference.mean, 0);  // they are rounded
}

// How a prompt is cut into steps must not change a single bit of its results on the CPU.
TEST_P(DecoderGoldenTest, ChunksDoNotChangeBits) {
  if (device_ != DeviceKind::kCpu) GTEST_SKIP() << "on a GPU they may, within rounding";
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const auto runner = Open(dtype);
    ASSERT_NE(runner, nullptr);
    const std::vector<float> whole = runner->Append(expected_.tokens);
    for (size_t chunk = 1; chunk < expected_.tokens.size(); ++chunk) {
      runner->Restart();
      EXPECT_EQ(runner->AppendInChunks(expected_.tokens, chunk), whole) << "chunk " << chunk;
    }
  }
}

// The last layer skips tokens whose logits nobody wants: all tokens of a chunk, or all except a
// few.
TEST_P(DecoderGoldenTest, LogitsOfFewTokensAreThoseOfAll) {
  const auto runner = Open(DType::kF32);
  ASSERT_NE(runner, nullptr);
  const std::vector<float> whole = runner->Append(expected_.tokens);
  const absl::Span<const TokenId> tokens = expected_.tokens;
  const size_t half = tokens.size() / 2;
  for (size_t num_rows : {1, 3}) {
    ASSERT_LT(num_rows, tokens.size() - half);
    runner->Restart();
    EXPECT_TRUE(runner->AppendWanting(0, tokens.first(half)).empty());
    const std::vector<float> last = runner->AppendWanting(num_rows, tokens.subspan(half));
    const size_t size = num_rows * runner->config().vocab_size;
    ASSERT_EQ(last.size(), size);
    const std::vector<float> expected(whole.end() - size, whole.end());
    if (device_ == DeviceKind::kCpu) {
      EXPECT_EQ(last, expected);
    } else {
      EXPECT_LE(CompareLogprobs(last, expected).max, 1e-3);
    }
  }
}

// The first layer's cache is exact, the others' has 8 bits, and what transformers computes with
// such a cache is much nearer than what it computes without.
TEST(MixedCacheGoldenTest, LayersMayKeepKeysAndValuesInDifferentTypes) {
  const std::string folder = std::string(kGoldenFolder) + "llama_mixed_cache";
  const ExpectedLogprobs expected = LoadExpectedLogprobs(folder);
  const auto exact = LoadExpectedLogprobs(folder + "/exact");
  for (const DeviceKind device : TestDevices()) {
    const auto runner =
        SequenceRunner::Create(folder, {.dtype = DType::kF32,
                                        .kv_dtypes = {DType::kF32, DType::kF8E4M3, DType::kF8E4M3},
                                        .max_len = 256,
                                        .device = device});
    ASSERT_TRUE(runner.ok()) << runner.status();
    const std::vector<float> actual = (*runner)->Append(expected.tokens);
    ASSERT_EQ(actual.size(), expected.logprobs.size());
    const double effect = CompareLogprobs(exact.logprobs, expected.logprobs).mean;
    EXPECT_GT(effect, 1e-3);
    // A digit may fall the other way.
    EXPECT_LE(CompareLogprobs(actual, expected.logprobs).mean, 0.02 * effect);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, DecoderGoldenTest,
    testing::Combine(
        testing::Values("llama3_rope_biases_tied", "llama_linear_rope_f16_sharded",
                        "mistral_window_head_dim_v4", "qwen2_window_tied", "qwen3_yarn",
                        "gemma2_caps_windows", "gemma3_two_ropes", "phi3_longrope",
                        "llama_head_dim_128", "qwen3_head_dim_64_two_groups", "phi3_head_dim_96",
                        "smollm3_no_rope", "llama_sinks_windows_yarn", "llama_kv_sharing",
                        "gemma3_text_part", "mistral3_text_part", "qwen2_5_vl_text_part_v4",
                        "qwen3_vl_text_part_tied", "qwen35_conditional", "qwen35_causal",
                        "qwen35_heads_128", "gemma4_e_kind", "gemma4_31b_kind", "gemma4_26b_kind",
                        "gemma4_unified", "gemma4_causal", "olmo3_row_norms_yarn",
                        "exaone4_ropes_in_windows", "seed_oss_biases", "granite_multipliers",
                        "granite4_shared_mlp", "glm4_pairs_of_neighbours",
                        "ministral3_query_scales", "cohere2_parallel_blocks", "qwen2_moe_windows",
                        "qwen3_moe_renormalised", "qwen3_moe_stacked", "mixtral", "qwen3_next",
                        "qwen3_next_plain", "qwen35_moe_causal", "qwen35_moe_conditional",
                        "glm4_moe_groups", "glm4_moe_plain", "gpt_oss", "gpt_oss_mxfp4"),
        testing::ValuesIn(TestDevices())),
    [](const auto& info) {
      return GoldenCaseName(std::get<0>(info.param), std::get<1>(info.param));
    });

}  // namespace
}  // namespace quire
