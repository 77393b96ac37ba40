#include "engine/model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/linear_groups.h"
#include "kernels/backend.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/sequence_runner.h"
#include "tests/engine/model/tiny_weights.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kFile[] = "model.safetensors";

constexpr char kConfigJson[] = R"({"model_type": "llama", "vocab_size": 70, "hidden_size": 32,
    "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "attention_bias": true})";

// An embedding that is read in several chunks.
constexpr char kLargeEmbedding[] = R"({"model_type": "llama", "vocab_size": 70001,
    "hidden_size": 34, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 1,
    "num_key_value_heads": 1})";

// With inputs of each layer; the last layer reads the keys and values of the first.
constexpr char kGemma4[] = R"({"model_type": "gemma4_text", "vocab_size": 70, "hidden_size": 32,
    "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 8, "num_kv_shared_layers": 1,
    "layer_types": ["full_attention", "full_attention"], "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": 70})";

class WeightsTest : public testing::Test {
 protected:
  void SetUp() override {
    backend_ = *OpenBackend({});
    UseConfig(kConfigJson);
  }

  void UseConfig(const std::string& json) {
    folder_.Write("config.json", json);
    config_ = *LoadModelConfig(folder_.path());
    tensors_ = TensorsOf(config_);
  }

  absl::StatusOr<Weights> Load(const WeightsOptions& options = {.dtype = DType::kF32}) {
    folder_.Write(kFile, FileOf(tensors_));
    return Weights::Load(*backend_, config_, folder_.path(), options);
  }

  // Row `id` of a float32 embedding, as the device sees it.
  std::vector<float> EmbeddingRow(const Weights& weights, int32_t id) {
    const int64_t hidden_size = weights.embedding().in_features;
    const int64_t row_bytes = hidden_size * sizeof(float);
    DeviceBuffer pinned = *backend_->device().AllocatePinned(row_bytes);
    DeviceBuffer ids = *backend_->device().Allocate(sizeof(id));
    DeviceBuffer row = *backend_->device().Allocate(row_bytes);
    const std::unique_ptr<Stream> stream = *backend_->device().CreateStream();
    *pinned.as<int32_t>() = id;
    stream->CopyToDevice(ids.data(), pinned.data(), sizeof(id));
    backend_->ops().Embedding(*stream, {.input_ids = ids.as<int32_t>(),
                                        .row_last_token = nullptr,
                                        .table = &weights.embedding(),
                                        .out = Tensor(row.data(), DType::kF32, {1, hidden_size})});
    stream->CopyToHost(pinned.data(), row.data(), row_bytes);
    EXPECT_TRUE(stream->Synchronize().ok());
    return std::vector<float>(pinned.as<float>(), pinned.as<float>() + hidden_size);
  }

  const TempFolder folder_;
  std::unique_ptr<Backend> backend_;
  ModelConfig config_;
  std::vector<FileTensor> tensors_;
};

TEST_F(WeightsTest, ShapesAndParameterCount) {
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->embedding().out_features, 70);
  EXPECT_EQ(weights->lm_head().in_features, 32);
  EXPECT_NE(weights->lm_head().data, weights->embedding().data);
  const LayerWeights& layer = weights->layer(1);
  EXPECT_EQ(layer.gqa.qkv.out_features, (4 + 2 + 2) * 8);
  EXPECT_EQ(layer.gqa.qkv_bias.dim(0), (4 + 2 + 2) * 8);
  EXPECT_EQ(layer.gqa.o_bias.dim(0), 32);
  EXPECT_EQ(layer.gated_mlp.gate_up.out_features, 48);
  EXPECT_EQ(layer.gated_mlp.down.in_features, 24);
  EXPECT_TRUE(layer.gated_mlp.gate_up_bias.empty() && layer.gqa.q_norm.empty());
  int64_t num_parameters = 0;
  for (const FileTensor& tensor : tensors_) num_parameters += tensor.data.size() / sizeof(float);
  EXPECT_EQ(weights->num_parameters(), num_parameters);
  EXPECT_GE(weights->size_bytes(), num_parameters * 4);
}

// They are measured as they are computed: gates and ups with their activation.
TEST_F(WeightsTest, LinearGroupsKnowGatesAndUps) {
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  int num_gated = 0;
  for (const LinearGroup& group : LinearGroups(*weights, 16, 4)) {
    num_gated += group.gated ? 1 : 0;
    EXPECT_EQ(group.gated, group.weights[0] == &weights->layer(0).gated_mlp.gate_up);
    EXPECT_EQ(group.weights.size(), group.max_num_rows == 4 ? 1u : 2u);
  }
  EXPECT_EQ(num_gated, 1);
}

// A step reads rows of the embeddings, and all of the rest.
TEST_F(WeightsTest, AnEmbeddingForTheLayersIsNoMatrixThatGemmsRead) {
  UseConfig(kGemma4);
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  const PerLayerInputWeights& input = weights->per_layer_input();
  EXPECT_EQ(input.embedding.out_features, 70);
  EXPECT_EQ(input.embedding.in_features, 2 * 16);
  int64_t linear_bytes = weights->embedding().size_bytes();  // tied: it is the head
  std::set<const LinearWeight*> linears;
  for (const LayerLinear& linear : weights->linears()) {
    linear_bytes += linear.weight->size_bytes();
    linears.insert(linear.weight);
  }
  EXPECT_EQ(weights->matrix_bytes(), linear_bytes);
  EXPECT_FALSE(linears.contains(&input.embedding));
  EXPECT_TRUE(linears.contains(&input.projection));
  for (int layer : {0, 1}) {
    EXPECT_TRUE(linears.contains(&weights->layer(layer).per_layer_input.gate));
    EXPECT_TRUE(linears.contains(&weights->layer(layer).per_layer_input.projection));
  }
}

TEST_F(WeightsTest, ALayerThatReadsAnothersCacheMayHaveKeysAndValuesOfItsOwn) {
  UseConfig(kGemma4);
  const std::string layer = "model.layers.1.self_attn.";
  tensors_.push_back({layer + "k_proj.weight", "F32", {16, 32}, std::string(2048, '\1')});
  tensors_.push_back({layer + "v_proj.weight_scale", "F32", {1}, std::string(4, '\1')});
  tensors_.push_back({layer + "k_norm.weight", "F32", {8}, std::string(32, '\1')});
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->layer(0).gqa.qkv.out_features, (4 + 2 + 2) * 8);
  EXPECT_EQ(weights->layer(1).gqa.qkv.out_features, 4 * 8);
  tensors_.push_back({layer + "k_proj2.weight", "F32", {1}, std::string(4, '\1')});
  EXPECT_THAT(Load().status().message(), HasSubstr("no layer of config.json's model reads"));
}

TEST_F(WeightsTest, TiedEmbeddingsShareMemory) {
  const int64_t untied_bytes = Load()->size_bytes();
  std::string json = kConfigJson;
  json.replace(json.size() - 1, 1, ", \"tie_word_embeddings\": true}");
  UseConfig(json);
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->lm_head().data, weights->embedding().data);
  EXPECT_EQ(weights->lm_head().out_features, 70);
  EXPECT_LT(weights->size_bytes(), untied_bytes);
}

TEST_F(WeightsTest, VectorsAreConvertedExactly) {
  FileTensor& norm = Find(tensors_, "model.norm.weight");
  norm.dtype = "F16";
  norm.data.assign(32 * 2, '\0');
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x7c00, 0x3555};
  std::memcpy(norm.data.data(), halves, sizeof(halves));
  FileTensor& other = Find(tensors_, "model.layers.0.input_layernorm.weight");
  other.dtype = "BF16";
  other.data.assign(32 * 2, '\0');
  other.data.replace(0, 4, std::string("\x80\x3f\x40\xc0", 4));
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  const float* values = weights->final_norm().as<float>();
  const float expected[] = {1.0f, -2.0f, 0x1p-24f, -0x1.ff8p-15f, 65504.0f, INFINITY, 0x1.554p-2f};
  for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(values[i], expected[i]) << i;
  EXPECT_EQ(weights->layer(0).input_norm.as<float>()[0], 1.0f);
  EXPECT_EQ(weights->layer(0).input_norm.as<float>()[1], -3.0f);
}

TEST_F(WeightsTest, MissingTensorsAreListed) {
  std::erase_if(tensors_, [](const FileTensor& tensor) {
    return tensor.name.find("layers.1.") != std::string::npos;
  });
  const absl::Status some = Load().status();
  EXPECT_EQ(some.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(some.message(),
              AllOf(HasSubstr("lacks 13 tensors"), HasSubstr("model.layers.1.mlp.up_proj.weight"),
                    HasSubstr("model.layers.1.self_attn.o_proj.bias"), Not(HasSubstr(" more"))));
  tensors_.resize(1);
  EXPECT_THAT(Load().status().message(),
              AllOf(HasSubstr("lacks 28 tensors"), HasSubstr(" and 8 more")));
}

TEST_F(WeightsTest, ShapesMustFitTheConfig) {
  FileTensor& down = Find(tensors_, "model.layers.1.mlp.down_proj.weight");
  down.shape = {24, 32};
  EXPECT_THAT(Load().status().message(),
              HasSubstr("model.safetensors: tensor model.layers.1.mlp.down_proj.weight has shape "
                        "[24, 32], but config.json implies [32, 24]"));
}

TEST_F(WeightsTest, OtherDTypesAreRefused) {
  FileTensor& norm = Find(tensors_, "model.norm.weight");
  norm.dtype = "I32";
  EXPECT_THAT(Load().status().message(),
              HasSubstr("tensor model.norm.weight has dtype I32; supported are BF16, F16 and F32"));
}

TEST_F(WeightsTest, TensorsThatNoLayerReadsAreRefused) {
  tensors_.push_back({"model.layers.2.mlp.down_proj.weight", "U8", {1}, "x"});
  tensors_.push_back({"model.layers.0.self_attn.o_proj.scale", "U8", {1}, "x"});
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Load().status().message(),
              AllOf(HasSubstr("has 2 tensors that no layer"),
                    HasSubstr("\"model.layers.0.self_attn.o_proj.scale\", "
                              "\"model.layers.2.mlp.down_proj.weight\""),
                    HasSubstr("num_hidden_layers")));
}

TEST_F(WeightsTest, SurplusThatIsKnownIsNotRead) {
  tensors_.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "U8", {1}, "x"});
  tensors_.push_back({"model.rotary_emb.inv_freq", "U8", {1}, "x"});
  EXPECT_TRUE(Load().ok()) << Load().status();
}

// Quantizers of before 2024 wrote a bias of zeros for every linear module.
TEST_F(WeightsTest, BiasesOfZeroThatTheModelDoesNotAddAreNotRead) {
  const std::string name = "model.layers.1.mlp.down_proj.bias";
  tensors_.push_back({name, "F32", {32}, BytesOf(std::vector<float>(32))});
  tensors_.push_back({"lm_head.bias", "F16", {70}, std::string(140, '\0')});
  EXPECT_TRUE(Load().ok()) << Load().status();
  EXPECT_TRUE(Weights::CheckFiles(config_, folder_.path()).ok());
  Find(tensors_, name).data = BytesOf(std::vector<float>(32, 0.5f));
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Load().status().message()),
              AllOf(HasSubstr("1 biases that are not 0"), HasSubstr(name),
                    HasSubstr("attention_bias"), Not(HasSubstr("lm_head"))));
  EXPECT_EQ(Weights::CheckFiles(config_, folder_.path()).status(), Load().status());
  // Of another size it is no bias of that module.
  Find(tensors_, name) = {name, "F32", {31}, BytesOf(std::vector<float>(31))};
  EXPECT_THAT(std::string(Load().status().message()), HasSubstr("that no layer of"));
}

std::vector<float> HostVector(const Tensor& tensor) {
  return {tensor.as<float>(), tensor.as<float>() + tensor.num_elements()};
}

// One for all heads or one each, by any quantizer's name; of queries nothing is quantized.
TEST_F(WeightsTest, ScalesOfTheKvCacheAreReadWhereThereAreSome) {
  const std::string layer = "model.layers.0.self_attn.";
  tensors_.push_back({layer + "k_scale", "F32", {}, BytesOf({0.25f})});
  tensors_.push_back({layer + "v_proj.v_scale", "F32", {2, 1, 1}, BytesOf({0.5f, 0.75f})});
  tensors_.push_back({layer + "kv_scale", "F32", {1}, BytesOf({9.0f})});  // the others come first
  tensors_.push_back({layer + "q_scale", "F32", {1}, BytesOf({9.0f})});
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(HostVector(weights->layer(0).gqa.k_scales), (std::vector<float>{0.25f, 0.25f}));
  EXPECT_EQ(HostVector(weights->layer(0).gqa.v_scales), (std::vector<float>{0.5f, 0.75f}));
  EXPECT_EQ(HostVector(weights->layer(1).gqa.k_scales), (std::vector<float>{1, 1}));
  EXPECT_EQ(HostVector(weights->layer(1).gqa.v_scales), (std::vector<float>{1, 1}));
}

TEST_F(WeightsTest, OneScaleMayBeOfKeysAndValues) {
  tensors_.push_back({"model.layers.1.self_attn.kv_scale", "F32", {1}, BytesOf({3.0f})});
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(HostVector(weights->layer(1).gqa.k_scales), (std::vector<float>{3, 3}));
  EXPECT_EQ(HostVector(weights->layer(1).gqa.v_scales), (std::vector<float>{3, 3}));
}

TEST_F(WeightsTest, ScalesThatCannotBeAreRefused) {
  const std::string name = "model.layers.0.self_attn.k_scale";
  for (const float scale : {0.0f, -1.0f, std::nanf(""), INFINITY}) {
    SCOPED_TRACE(scale);
    tensors_.push_back({name, "F32", {1}, BytesOf({scale})});
    EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Load().status().message(), HasSubstr(name + " has a scale of "));
    tensors_.pop_back();
  }
  tensors_.push_back({name, "F32", {3}, BytesOf({1, 1, 1})});
  EXPECT_THAT(Load().status().message(),
              HasSubstr(name + " has shape [3], but config.json implies [2]"));
}

TEST_F(WeightsTest, ThreadsDoNotChangeWhatIsLoaded) {
  UseConfig(kLargeEmbedding);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const auto one = Load({.dtype = dtype, .num_threads = 1});
    const auto many = Load({.dtype = dtype, .num_threads = 5});
    ASSERT_TRUE(one.ok() && many.ok());
    const int64_t bytes = one->embedding().size_bytes();  // may be compressed
    ASSERT_EQ(many->embedding().size_bytes(), bytes);
    EXPECT_EQ(std::memcmp(one->embedding().data, many->embedding().data, bytes), 0);
    EXPECT_EQ(std::memcmp(one->lm_head().data, many->lm_head().data, bytes), 0);
    EXPECT_NE(std::memcmp(one->embedding().data, one->lm_head().data, bytes), 0);
  }
}

TEST_F(WeightsTest, EveryRowLandsInItsPlace) {
  UseConfig(kLargeEmbedding);
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::vector<int32_t> ids = {0, 30847, 30848, 61696, 70000};
  const std::string& data = Find(tensors_, "model.embed_tokens.weight").data;
  for (int32_t id : ids) {
    EXPECT_EQ(BytesOf(EmbeddingRow(*weights, id)), data.substr(id * 34 * 4, 34 * 4)) << id;
  }
}

TEST_F(WeightsTest, NoRoomIsResourceExhausted) {
  config_.vocab_size = 1 << 24;
  config_.hidden_size = 1 << 20;
  const absl::Status status =
      Weights::Load(*backend_, config_, folder_.path(), {.format = LoadFormat::kDummy}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(WeightsTest, FingerprintTellsModelsApart) {
  const std::string first = Load()->fingerprint();
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(Load()->fingerprint(), first);
  tensors_.push_back({"x.rotary_emb.inv_freq", "U8", {1}, "x"});
  EXPECT_NE(Load()->fingerprint(), first);
  tensors_.pop_back();
  // The scales decide what the cache holds, too.
  const std::string scale = "model.layers.0.self_attn.k_scale";
  tensors_.push_back({scale, "F32", {1}, BytesOf({2})});
  const std::string scaled = Load()->fingerprint();
  tensors_.back().data = BytesOf({3});
  EXPECT_NE(Load()->fingerprint(), scaled);
  tensors_.pop_back();
  folder_.Write("config.json", std::string(kConfigJson) + " ");
  EXPECT_NE(Load()->fingerprint(), first);

  const auto dummy = [&](uint64_t seed) {
    return Weights::Load(*backend_, config_, folder_.path(),
                         {.format = LoadFormat::kDummy, .seed = seed})
        ->fingerprint();
  };
  EXPECT_EQ(dummy(1), dummy(1));
  EXPECT_NE(dummy(1), dummy(2));
}

// A file of its own may say how weights are quantized.
TEST_F(WeightsTest, FingerprintKnowsEveryFileThatSaysHowWeightsAreQuantized) {
  std::vector<std::string> fingerprints = {Load()->fingerprint()};
  for (const char* file : {"hf_quant_config.json", "quantize_config.json", "quant_config.json"}) {
    for (const char* text : {R"({"bits": 4, "checkpoint_format": "gptq"})",
                             R"({"bits": 4, "checkpoint_format": "gptq_v2"})"}) {
      folder_.Write(file, text);
      fingerprints.push_back(Load()->fingerprint());
    }
  }
  const std::set<std::string> different(fingerprints.begin(), fingerprints.end());
  EXPECT_EQ(different.size(), fingerprints.size());
}

// Lists of modules make it so.
TEST_F(WeightsTest, AConfigMayBeLongerThanAMegabyte) {
  std::string json = kConfigJson;
  json.replace(json.size() - 1, 1,
               absl::StrCat(", \"note\": \"", std::string(3 << 20, 'x'), "\"}"));
  UseConfig(json);
  EXPECT_TRUE(Load().ok()) << Load().status();
}

// Layers become FP8; the head and the embedding stay what they are.
TEST_F(WeightsTest, FloatsAreQuantizedWhileTheyAreLoaded) {
  const std::string plain = Load()->fingerprint();
  const int64_t plain_bytes = Load()->size_bytes();
  config_.load_quantization = LoadQuantization::kFloat8;
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  const LayerWeights& layer = weights->layer(1);
  for (const LinearWeight* weight :
       {&layer.gqa.qkv, &layer.gqa.o, &layer.gated_mlp.gate_up, &layer.gated_mlp.down}) {
    EXPECT_EQ(weight->format, (WeightFormat{.value = WeightValue::kFloat8, .group_columns = 128}));
    EXPECT_EQ(weight->activations, ActivationFormat());  // a CPU's stay as they are
  }
  EXPECT_FALSE(weights->lm_head().format.quantized());
  EXPECT_FALSE(weights->embedding().format.quantized());
  EXPECT_LT(weights->size_bytes(), plain_bytes);
  EXPECT_NE(weights->fingerprint(), plain);

  FileTensor& broken = Find(tensors_, "model.layers.1.mlp.down_proj.weight");
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(broken.data.data() + 40, &infinity, sizeof(infinity));
  const absl::Status status = Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(broken.name));
}

// When layers are alike in shape but kept in several formats, each format is measured.
TEST_F(WeightsTest, LinearGroupsAreOfOneFormat) {
  auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  const size_t num_groups = LinearGroups(*weights, 16, 4).size();
  const LayerWeights& layer = weights->layer(1);
  const_cast<LinearWeight&>(layer.gqa.o).format.value = WeightValue::kFloat8;
  EXPECT_EQ(LinearGroups(*weights, 16, 4).size(), num_groups + 1);
  const_cast<LinearWeight&>(layer.gqa.qkv).activations.value = ActivationValue::kFloat8;
  EXPECT_EQ(LinearGroups(*weights, 16, 4).size(), num_groups + 2);
}

// A model with dummy weights must behave like a model: finite, alive, and not certain of one token.
TEST(DummyWeights, KeepTheSignalSane) {
  const TempFolder folder;
  for (const char* tied : {"false", "true"}) {
    folder.Write("config.json",
                 absl::StrCat(R"({"model_type": "qwen3", "vocab_size": 500, "hidden_size": 256,
        "intermediate_size": 512, "num_hidden_layers": 12, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 64, "tie_word_embeddings": )",
                              tied, "}"));
    auto runner = SequenceRunner::Create(folder.path(), {.format = LoadFormat::kDummy});
    ASSERT_TRUE(runner.ok()) << runner.status();
    EXPECT_EQ((*runner)->weights().layer(3).gqa.q_norm.as<float>()[5], 1.0f);
    const std::vector<float> logprobs = (*runner)->Append({1, 2, 3, 4, 5, 6, 7, 8});
    double mean = 0, square = 0;
    for (float logprob : logprobs) {
      ASSERT_TRUE(std::isfinite(logprob));
      ASSERT_LT(logprob, std::log(0.9));
      mean += logprob / logprobs.size();
      square += double{logprob} * logprob / logprobs.size();
    }
    const double deviation = std::sqrt(square - mean * mean);
    EXPECT_GT(deviation, 0.3) << "tied " << tied;
    EXPECT_LT(deviation, 3.0) << "tied " << tied;
  }
}

}  // namespace
}  // namespace quire
