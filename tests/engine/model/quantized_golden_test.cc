// The decoder with quantized checkpoints against what transformers computed in float32 with the
// weights that the packages read from them: golden_quantized/, written by llm-compressor,
// gptqmodel, transformers and ModelOpt (tools/make_quantized_models.py).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/engine/model/expected_logprobs.h"
#include "tests/engine/model/sequence_runner.h"

namespace quire {
namespace {

class QuantizedGoldenTest : public testing::TestWithParam<std::tuple<const char*, DeviceKind>> {
 protected:
  std::unique_ptr<SequenceRunner> Open(DType dtype) {
    auto runner = SequenceRunner::Create(
        folder_, {.dtype = dtype, .max_len = 64, .device = device_, .replay_decodes = true});
    if (!runner.ok()) ADD_FAILURE() << runner.status();
    return runner.ok() ? std::move(*runner) : nullptr;
  }

  // Errors that have nothing to do with one another add up as the sides of a right angle do.
  LogprobDifference Allowed(bool with_quantized_activations) const {
    const LogprobDifference rounding = expected_.bfloat16_error;
    if (!with_quantized_activations) return rounding;
    const LogprobDifference activations = expected_.activation_error;
    return {std::hypot(rounding.max, activations.max), std::hypot(rounding.mean, activations.mean)};
  }

  const DeviceKind device_ = std::get<1>(GetParam());
  const std::string folder_ =
      std::string("tests/engine/model/golden_quantized/") + std::get<0>(GetParam());
  const ExpectedLogprobs expected_ = LoadExpectedLogprobs(folder_);
};

bool HasQuantized(const SequenceRunner& runner, ActivationValue activations) {
  return runner.weights().layer(0).gated_mlp.gate_up.activations.value == activations;
}

std::vector<const LinearWeight*> AttentionLinears(const LayerWeights& layer, AttentionKind kind) {
  if (kind == AttentionKind::kGatedDelta) return {&layer.delta.qkvz, &layer.delta.out};
  return {&layer.gqa.qkv, &layer.gqa.o};
}

// Weights are exact; of activations that the CPU quantizes, too, the error is as in the package.
TEST_P(QuantizedGoldenTest, Float32MatchesTransformers) {
  const auto runner = Open(DType::kF32);
  ASSERT_NE(runner, nullptr);
  const std::vector<float> actual = runner->Append(expected_.tokens);
  ASSERT_EQ(actual.size(), expected_.logprobs.size());
  const LogprobDifference difference = CompareLogprobs(actual, expected_.logprobs);
  if (device_ == DeviceKind::kCpu && HasQuantized(*runner, ActivationValue::kInt8)) {
    EXPECT_LE(difference.max, 2.0 * expected_.activation_error.max);
    EXPECT_LE(difference.mean, 1.3 * expected_.activation_error.mean);
  } else {
    EXPECT_LE(difference.max, device_ == DeviceKind::kCpu ? 1e-4 : 1e-3);
  }
}

// A prompt, then steps of one token each: other gemms than a prompt's.
TEST_P(QuantizedGoldenTest, BFloat16IsNoFurtherOffThanTransformers) {
  const auto runner = Open(DType::kBF16);
  ASSERT_NE(runner, nullptr);
  for (const size_t num_prompt_tokens : {expected_.tokens.size(), size_t{9}}) {
    runner->Restart();
    const std::vector<float> actual =
        runner->AppendPromptAndDecodes(expected_.tokens, num_prompt_tokens);
    ASSERT_EQ(actual.size(), expected_.logprobs.size());
    const LogprobDifference difference = CompareLogprobs(actual, expected_.logprobs);
    const LogprobDifference allowed = Allowed(!HasQuantized(*runner, ActivationValue::kAsTheyAre));
    EXPECT_LE(difference.max, 2.0 * allowed.max) << num_prompt_tokens;
    EXPECT_LE(difference.mean, 1.3 * allowed.mean) << num_prompt_tokens;
  }
}

// The weights are kept as codes, except in formats that a GPU has no gemms for.
TEST_P(QuantizedGoldenTest, WeightsAreKeptAsCodes) {
  const std::string name = std::get<0>(GetParam());
  const bool expanded = device_ == DeviceKind::kCuda && name == "llama_mxfp8";
  const auto runner = Open(DType::kBF16);
  ASSERT_NE(runner, nullptr);
  for (size_t i = 0; i < runner->config().layers.size(); ++i) {
    const LayerWeights& layer = runner->weights().layer(static_cast<int>(i));
    auto weights = AttentionLinears(layer, runner->config().layers[i].attention);
    weights.insert(weights.end(), {&layer.gated_mlp.gate_up, &layer.gated_mlp.down});
    for (const LinearWeight* weight : weights) {
      const bool left_out = name == "llama_gptq_dynamic" && weight == &layer.gqa.o;
      EXPECT_EQ(weight->format.quantized(), !expanded && !left_out);
    }
    EXPECT_FALSE(layer.delta.ba.format.quantized());
  }
  EXPECT_FALSE(runner->weights().lm_head().format.quantized());
}

// How a prompt is cut into steps must not change a single bit of its results on the CPU.
TEST_P(QuantizedGoldenTest, ChunksDoNotChangeBits) {
  if (device_ != DeviceKind::kCpu) GTEST_SKIP() << "on a GPU they may, within rounding";
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const auto runner = Open(dtype);
    ASSERT_NE(runner, nullptr);
    const std::vector<float> whole = runner->Append(expected_.tokens);
    for (const size_t chunk : {1, 2, 5, 17}) {
      runner->Restart();
      EXPECT_EQ(runner->AppendInChunks(expected_.tokens, chunk), whole) << "chunk " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, QuantizedGoldenTest,
    testing::Combine(testing::Values("llama_fp8_dynamic", "llama_fp8_block", "llama_int8",
                                     "llama_w4a16", "llama_nvfp4", "llama_mxfp4", "llama_mxfp8",
                                     "qwen3_fp8_block", "qwen3_w4a16_asym", "qwen3_w8a16",
                                     "phi3_fp8_dynamic", "phi3_w4a16_asym", "llama_gptq_desc_act",
                                     "llama_awq", "qwen3_awq", "qwen3_gptq_asym", "qwen3_gptq_8",
                                     "llama_fp8", "qwen3_fp8", "qwen35_fp8", "llama_gptq_v2",
                                     "llama_gptq_dynamic", "llama_gptq_rows", "llama_fp8_static",
                                     "qwen3_fp8_dynamic", "qwen3_int8", "qwen3_fp8_modelopt",
                                     "phi3_gptq", "llama_autoround", "qwen3_autoround_asym"),
                     testing::ValuesIn(TestDevices())),
    [](const auto& info) {
      return GoldenCaseName(std::get<0>(info.param), std::get<1>(info.param));
    });

}  // namespace
}  // namespace quire
