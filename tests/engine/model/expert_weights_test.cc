// Weights of mixtures of experts: the forms that checkpoints have them in make the same model, bit
// for bit; what is missing, too many or of another format is named; dummy weights differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/model/weights/row_turns.h"
#include "kernels/device_facts.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/expected_logprobs.h"
#include "tests/engine/model/sequence_runner.h"
#include "tests/engine/model/tiny_weights.h"
#include "tests/kernels/test_values.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kNumExperts = 4;
const std::vector<TokenId> kTokens = {1, 5, 90, 33, 7, 64, 2, 18, 41, 11};

std::string ConfigOf(absl::string_view more = "") {
  return absl::StrCat(R"({"model_type": "qwen2_moe", "vocab_size": 96, "hidden_size": 64,
      "intermediate_size": 96, "moe_intermediate_size": 32, "num_experts": )",
                      kNumExperts, R"(, "num_experts_per_tok": 2,
      "shared_expert_intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "mlp_only_layers": [1],
      "tie_word_embeddings": false)",
                      more, "}");
}

constexpr char kFloat8[] = R"(, "quantization_config": {"quant_method": "fp8",
    "activation_scheme": "dynamic", "weight_block_size": [32, 32],
    "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate",
                               "model.layers.0.mlp.shared_expert_gate"%s]})";
constexpr char kAwq[] = R"(, "quantization_config": {"quant_method": "awq", "bits": 4,
    "group_size": 32, "zero_point": true, "version": "gemm",
    "modules_to_not_convert": ["layers.0.mlp.gate", "shared_expert_gate"]})";
constexpr char kGptq[] = R"(, "quantization_config": {"quant_method": "gptq", "bits": 4,
    "group_size": 32, "sym": true, "desc_act": true,
    "dynamic": {"-:.*mlp\\.gate$": {}, "-:.*shared_expert_gate": {}}})";

std::string Float8(absl::string_view more = "") {
  std::string text = kFloat8;
  text.replace(text.find("%s"), 2, std::string(more));
  return text;
}

class ExpertWeightsTest : public testing::Test {
 protected:
  void SetUp() override { MakeTensors(""); }

  void MakeTensors(absl::string_view quantization) {
    folder_.Write("config.json", ConfigOf(quantization));
    const auto config = LoadModelConfig(folder_.path());
    ASSERT_TRUE(config.ok()) << config.status();
    int seed = 0;
    made_ = QuantizedTensorsOf(*config, [&seed](const std::string&, const ModuleShape& shape) {
      // Each module has another order, as GPTQ's modules of experts have, but a gate and its up
      // have the same.
      std::vector<int32_t> groups(shape.columns);
      const int64_t step = 3 + 2 * (seed++ / 2 % 2);
      for (int64_t i = 0; i < shape.columns; ++i) {
        groups[i * step % shape.columns] = static_cast<int32_t>(i / 32);
      }
      return groups;
    });
  }

  absl::StatusOr<std::unique_ptr<SequenceRunner>> Open(const std::vector<FileTensor>& tensors) {
    folder_.Write("model.safetensors", FileOf(tensors));
    return SequenceRunner::Create(folder_.path(), {.max_len = 16});
  }

  std::vector<float> LogprobsOf(const std::vector<FileTensor>& tensors) {
    const auto runner = Open(tensors);
    EXPECT_TRUE(runner.ok()) << runner.status();
    return runner.ok() ? (*runner)->Append(kTokens) : std::vector<float>();
  }

  std::string ErrorOf(const std::vector<FileTensor>& tensors) {
    const absl::Status status = Open(tensors).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const auto config = LoadModelConfig(folder_.path());
    EXPECT_EQ(Weights::CheckFiles(*config, folder_.path()).status(), status);
    return std::string(status.message());
  }

  const TempFolder folder_;
  QuantizedTensors made_;
};

// All experts' gates and ups in one tensor, and all downs.
std::vector<FileTensor> Stacked(std::vector<FileTensor> tensors) {
  const std::string experts = "model.layers.0.mlp.experts.";
  FileTensor gate_up = {experts + "gate_up_proj", "F32", {kNumExperts, 64, 64}, ""};
  FileTensor down = {experts + "down_proj", "F32", {kNumExperts, 64, 32}, ""};
  for (int e = 0; e < kNumExperts; ++e) {
    for (const char* name : {"gate_proj", "up_proj"}) {
      gate_up.data += Find(tensors, absl::StrCat(experts, e, ".", name, ".weight")).data;
    }
    down.data += Find(tensors, absl::StrCat(experts, e, ".down_proj.weight")).data;
  }
  std::erase_if(tensors, [&](const FileTensor& t) { return absl::StartsWith(t.name, experts); });
  tensors.push_back(gate_up);
  tensors.push_back(down);
  return tensors;
}

TEST_F(ExpertWeightsTest, OneTensorOfAllExpertsMakesTheSameModel) {
  const std::vector<float> expected = LogprobsOf(made_.plain);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(LogprobsOf(Stacked(made_.plain)), expected);
  // Experts are told apart: each has another one's.
  std::vector<FileTensor> swapped = made_.plain;
  for (int e = 1; e < kNumExperts; ++e) {
    std::swap(
        Find(swapped, "model.layers.0.mlp.experts.0.down_proj.weight").data,
        Find(swapped, absl::StrCat("model.layers.0.mlp.experts.", e, ".down_proj.weight")).data);
  }
  EXPECT_NE(LogprobsOf(swapped), expected);
}

TEST_F(ExpertWeightsTest, QuantizedExpertsAreWhatTheyStandFor) {
  for (const std::string& quantization : {Float8(), std::string(kAwq), std::string(kGptq)}) {
    SCOPED_TRACE(quantization);
    MakeTensors(quantization);
    const std::vector<float> quantized = LogprobsOf(made_.quantized);
    folder_.Write("config.json", ConfigOf());
    const std::vector<float> plain = LogprobsOf(made_.plain);
    ASSERT_EQ(quantized.size(), plain.size());
    // The weights make logits of some hundred.
    EXPECT_LE(CompareLogprobs(quantized, plain).max, 1e-3);
  }
}

TEST_F(ExpertWeightsTest, QuantizedWhileLoadingIsAlikeInBothForms) {
  const auto open = [&](const std::vector<FileTensor>& tensors) {
    folder_.Write("model.safetensors", FileOf(tensors));
    auto runner = SequenceRunner::Create(
        folder_.path(),
        {.adjust =
             [](ModelConfig& config) { config.load_quantization = LoadQuantization::kFloat8; },
         .max_len = 16});
    EXPECT_TRUE(runner.ok()) << runner.status();
    EXPECT_TRUE((*runner)->weights().layer(0).routed_mlp.down.format.quantized());
    EXPECT_FALSE((*runner)->weights().layer(0).routed_mlp.router.format.quantized());
    return (*runner)->Append(kTokens);
  };
  const std::vector<float> expected = open(made_.plain);
  EXPECT_EQ(open(Stacked(made_.plain)), expected);
  EXPECT_NE(LogprobsOf(made_.plain), expected);
}

TEST_F(ExpertWeightsTest, WhatIsMissingOrTooMuchIsNamed) {
  std::vector<FileTensor> tensors = made_.plain;
  std::erase_if(tensors, [](const FileTensor& t) {
    return absl::StartsWith(t.name, "model.layers.0.mlp.experts.2.");
  });
  EXPECT_THAT(ErrorOf(tensors), AllOf(HasSubstr("lacks 3 tensors"),
                                      HasSubstr("model.layers.0.mlp.experts.2.up_proj.weight"),
                                      Not(HasSubstr("experts.1."))));
  tensors = made_.plain;
  tensors.push_back(Find(tensors, "model.layers.0.mlp.experts.3.up_proj.weight"));
  tensors.back().name = "model.layers.0.mlp.experts.4.up_proj.weight";
  EXPECT_THAT(ErrorOf(tensors),
              HasSubstr("reads: \"model.layers.0.mlp.experts.4.up_proj.weight\""));
  tensors = Stacked(made_.plain);
  Find(tensors, "model.layers.0.mlp.experts.gate_up_proj").shape = {2, 128, 64};
  EXPECT_THAT(ErrorOf(tensors),
              AllOf(HasSubstr("model.layers.0.mlp.experts.gate_up_proj has shape [2, 128, 64]"),
                    HasSubstr("implies [4, 64, 64]")));
}

TEST_F(ExpertWeightsTest, AnExpertOfAnotherFormatIsNamed) {
  MakeTensors(Float8());
  std::vector<FileTensor> tensors = made_.quantized;
  folder_.Write("config.json", ConfigOf(Float8(R"(, "model.layers.0.mlp.experts.2.down_proj")")));
  EXPECT_THAT(ErrorOf(tensors),
              AllOf(HasSubstr("model.layers.0.mlp.experts.0.down_proj is float8"),
                    HasSubstr("model.layers.0.mlp.experts.2.down_proj is not quantized")));
  folder_.Write("config.json", ConfigOf(Float8()));
  std::erase_if(tensors, [](const FileTensor& t) {
    return t.name == "model.layers.0.mlp.experts.1.up_proj.weight_scale_inv";
  });
  EXPECT_THAT(ErrorOf(tensors), HasSubstr("lacks the tensor model.layers.0.mlp.experts.1.up_proj"));
}

TEST_F(ExpertWeightsTest, SizesCountAllExpertsAndAStepReadsItsOwn) {
  const auto runner = Open(made_.plain);
  ASSERT_TRUE(runner.ok()) << runner.status();
  const Weights& weights = (*runner)->weights();
  const RoutedMlpWeights& mlp = weights.layer(0).routed_mlp;
  EXPECT_EQ(mlp.gate_up.num_experts, kNumExperts);
  EXPECT_EQ(mlp.gate_up.expert_bytes % 128, 0);
  int64_t bytes = weights.lm_head().size_bytes();
  for (const LayerLinear& linear : weights.linears()) {
    EXPECT_TRUE(linear.weight != &mlp.gate_up && linear.weight != &mlp.down);
    EXPECT_EQ(linear.out_dtype, linear.weight == &mlp.router ? DType::kF32 : linear.weight->dtype);
    bytes += linear.weight->size_bytes();
  }
  constexpr int64_t kTopK = 2, kExpertBytes = 3 * 32 * 64 * sizeof(float);
  EXPECT_EQ(weights.matrix_bytes(), bytes + kTopK * kExpertBytes);

  const auto config = LoadModelConfig(folder_.path());
  const std::unique_ptr<Backend> backend = *OpenBackend({});
  const auto sizes = Weights::SizesFor(*FactsOf(*backend), *config, DType::kF32, nullptr);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  int64_t num_parameters = 0;
  for (const FileTensor& tensor : made_.plain) {
    num_parameters += static_cast<int64_t>(tensor.data.size() / sizeof(float));
  }
  EXPECT_EQ(sizes->num_parameters, num_parameters);
  EXPECT_GE(sizes->bytes, weights.size_bytes());
}

TEST_F(ExpertWeightsTest, DummyExpertsDiffer) {
  const auto runner =
      SequenceRunner::Create(folder_.path(), {.max_len = 16, .format = LoadFormat::kDummy});
  ASSERT_TRUE(runner.ok()) << runner.status();
  const LinearWeight& down = (*runner)->weights().layer(0).routed_mlp.down;
  for (int e = 1; e < kNumExperts; ++e) {
    EXPECT_NE(std::memcmp(down.Expert(0).data, down.Expert(e).data, 64), 0) << e;
  }
}

// How many of 512 random tokens have each expert among their best two.
std::vector<int> LoadsOf(const std::string& folder, double router_skew) {
  constexpr int64_t kTokens = 512, kHidden = 64;
  const auto config = LoadModelConfig(folder);
  auto backend = OpenBackend({});
  EXPECT_TRUE(config.ok() && backend.ok());
  const auto weights = Weights::Load(
      **backend, *config, folder,
      {.format = LoadFormat::kDummy, .dtype = DType::kF32, .router_skew = router_skew});
  EXPECT_TRUE(weights.ok()) << weights.status();
  const LinearWeight& router = weights->layer(0).routed_mlp.router;
  std::vector<float> x = RandomNormal(kTokens * kHidden, 1);
  std::vector<float> logits(kTokens * router.out_features);
  const auto stream = (*backend)->device().CreateStream();
  (*backend)->ops().Linear(
      **stream, {.x = Tensor(x.data(), DType::kF32, {kTokens, kHidden}),
                 .weight = &router,
                 .out = Tensor(logits.data(), DType::kF32, {kTokens, router.out_features})});
  EXPECT_TRUE((*stream)->Synchronize().ok());
  const int64_t num_experts = router.out_features - 1;  // the last row is the shared one's gate
  std::vector<int> loads(num_experts);
  for (int64_t t = 0; t < kTokens; ++t) {
    const float* of_token = logits.data() + t * router.out_features;
    std::vector<int> order(num_experts);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + 2, order.end(),
                      [&](int a, int b) { return of_token[a] > of_token[b]; });
    ++loads[order[0]];
    ++loads[order[1]];
  }
  return loads;
}

TEST_F(ExpertWeightsTest, DummyRoutersAreSkewedWhereThatIsAskedFor) {
  std::string text = ConfigOf();
  folder_.Write("config.json",
                text.replace(text.find("\"num_experts\": 4"), 16, "\"num_experts\": 64"));
  const std::vector<int> even = LoadsOf(folder_.path(), 0), skewed = LoadsOf(folder_.path(), 3);
  // 16 tokens each on average.
  EXPECT_LT(*std::max_element(even.begin(), even.end()), 40);
  EXPECT_GT(*std::min_element(even.begin(), even.end()), 0);
  EXPECT_GT(*std::max_element(skewed.begin(), skewed.end()), 50);
  EXPECT_EQ(*std::min_element(skewed.begin(), skewed.end()), 0);
  EXPECT_EQ(LoadsOf(folder_.path(), 3), skewed);
  // KV blocks of one are nothing to the other.
  const auto fingerprint = [&](double router_skew) {
    const auto config = LoadModelConfig(folder_.path());
    auto backend = OpenBackend({});
    return Weights::Load(**backend, *config, folder_.path(),
                         {.format = LoadFormat::kDummy, .router_skew = router_skew})
        ->fingerprint();
  };
  EXPECT_NE(fingerprint(0), fingerprint(3));
}

TEST_F(ExpertWeightsTest, WhereThereIsNoDummyRouterASkewIsAnError) {
  const auto error_of = [&](LoadFormat format) {
    const auto config = LoadModelConfig(folder_.path());
    auto backend = OpenBackend({});
    const absl::Status status =
        Weights::Load(**backend, *config, folder_.path(), {.format = format, .router_skew = 1})
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  folder_.Write("model.safetensors", FileOf(made_.plain));
  EXPECT_THAT(error_of(LoadFormat::kAuto), HasSubstr("(--load-format dummy); leave it out"));
  std::string text = ConfigOf();
  folder_.Write("config.json",
                text.replace(text.find("\"num_experts\": 4"), 16, "\"num_experts\": 0"));
  EXPECT_THAT(error_of(LoadFormat::kDummy), HasSubstr("mixtures of experts only"));
}

// The weights before the experts take less memory once they are compressed, and the experts move
// up.
TEST_F(ExpertWeightsTest, ExpertsStayAsTheyAreWhenOthersAreCompressed) {
  std::string text = ConfigOf();
  folder_.Write("config.json",
                text.replace(text.find("\"vocab_size\": 96"), 16, "\"vocab_size\": 20000"));
  const auto config = LoadModelConfig(folder_.path());
  ASSERT_TRUE(config.ok()) << config.status();
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<Weights> loaded;
  for (const bool compress : {false, true}) {
    backends.push_back(*OpenBackend({.cpu_compress_weights = compress}));
    auto weights =
        Weights::Load(*backends.back(), *config, folder_.path(), {.format = LoadFormat::kDummy});
    ASSERT_TRUE(weights.ok()) << weights.status();
    loaded.push_back(*std::move(weights));
  }
  EXPECT_TRUE(loaded[1].lm_head().is_compressed());
  EXPECT_LT(loaded[1].size_bytes(), loaded[0].size_bytes());
  const LinearWeight& plain = loaded[0].layer(0).routed_mlp.gate_up;
  const LinearWeight& moved = loaded[1].layer(0).routed_mlp.gate_up;
  EXPECT_FALSE(moved.is_compressed());
  ASSERT_EQ(moved.expert_bytes, plain.expert_bytes);
  for (int e = 0; e < kNumExperts; ++e) {
    const size_t bytes = plain.Expert(e).size_bytes();
    EXPECT_EQ(std::memcmp(plain.Expert(e).data, moved.Expert(e).data, bytes), 0) << e;
  }
}

// Qwen3-Next's projections: queries, keys, values and z of each key head, one behind the other.
constexpr char kNextConfig[] = R"({"model_type": "qwen3_next", "vocab_size": 96, "hidden_size": 64,
    "intermediate_size": 96, "num_experts": 0, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"], "tie_word_embeddings": false%s})";

// Makes one tensor of the rows of `first` and `second`, head by head: `turns` says how many rows of
// each part a head has.
FileTensor Interleaved(const FileTensor& first, const FileTensor& second, const std::string& name,
                       int64_t num_heads, const std::vector<int64_t>& turns) {
  const std::string all = first.data + second.data;
  FileTensor out = {name, first.dtype, first.shape, ""};
  out.shape[0] += second.shape[0];
  const size_t row_bytes = all.size() / out.shape[0];
  for (int64_t head = 0; head < num_heads; ++head) {
    int64_t begin = 0;
    for (const int64_t rows : turns) {
      out.data += all.substr((begin + head * rows) * row_bytes, rows * row_bytes);
      begin += num_heads * rows;
    }
  }
  return out;
}

TEST_F(ExpertWeightsTest, RowsThatTakeTurnsMakeTheSameModel) {
  const std::string layer = "model.layers.0.linear_attn.";
  const std::string float8 =
      R"(, "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic",
         "weight_block_size": [8, 32], "modules_to_not_convert": ["lm_head",
         "model.layers.0.linear_attn.in_proj_a", "model.layers.0.linear_attn.in_proj_b",
         "model.layers.0.linear_attn.in_proj_ba"]})";
  for (const std::string& quantization : {std::string(), float8}) {
    SCOPED_TRACE(quantization);
    std::string text = kNextConfig;
    folder_.Write("config.json", text.replace(text.find("%s"), 2, quantization));
    const auto config = LoadModelConfig(folder_.path());
    ASSERT_TRUE(config.ok()) << config.status();
    std::vector<FileTensor> tensors = QuantizedTensorsOf(*config).quantized;
    const std::vector<float> expected = LogprobsOf(tensors);
    ASSERT_FALSE(expected.empty());
    const auto fuse = [&](const std::string& one, const std::string& other,
                          const std::string& fused, const std::vector<int64_t>& turns) {
      const FileTensor made = Interleaved(Find(tensors, layer + one), Find(tensors, layer + other),
                                          layer + fused, 2, turns);
      std::erase_if(tensors, [&](const FileTensor& t) {
        return t.name == layer + one || t.name == layer + other;
      });
      tensors.push_back(made);
    };
    fuse("in_proj_qkv.weight", "in_proj_z.weight", "in_proj_qkvz.weight", {8, 8, 16, 16});
    fuse("in_proj_b.weight", "in_proj_a.weight", "in_proj_ba.weight", {2, 2});
    if (!quantization.empty()) {
      fuse("in_proj_qkv.weight_scale_inv", "in_proj_z.weight_scale_inv",
           "in_proj_qkvz.weight_scale_inv", {1, 1, 2, 2});
    }
    EXPECT_EQ(LogprobsOf(tensors), expected);
  }
}

TEST(RowTurns, RowsFindTheirPlaces) {
  // Two rounds of one row a, two rows b: a b b a b b becomes a a b b b b.
  const WeightPart part = {.name = "x", .num_rows = 6, .turns = {1, 2}};
  const auto places = [&](int64_t first, int64_t count) {
    std::vector<int64_t> found(6, -1);
    for (const RowRun& run : RunsOf(part, first, count)) {
      for (size_t i = 0; i < run.from.size(); ++i) found[run.weight_row + i] = first + run.from[i];
    }
    return found;
  };
  EXPECT_EQ(places(0, 6), (std::vector<int64_t>{0, 3, 1, 2, 4, 5}));
  EXPECT_EQ(places(2, 3), (std::vector<int64_t>{-1, 3, -1, 2, 4, -1}));
  EXPECT_EQ(RunsOf({.name = "x", .num_rows = 6}, 2, 3).front().weight_row, 2);
}

}  // namespace
}  // namespace quire
