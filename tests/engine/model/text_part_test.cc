// The text part of a model of several parts: its keys in config.json, its tensors among others.
#include "engine/checkpoint/text_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/test_configs.h"
#include "tests/engine/model/tiny_weights.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// What Gemma 3 4B has.
json Gemma3() {
  return json::parse(R"({
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
    "eos_token_id": [1, 106], "image_token_index": 262144, "mm_tokens_per_image": 256,
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                    "num_hidden_layers": 34, "sliding_window": 1024,
                    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
    "torch_dtype": "bfloat16",
    "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                      "num_attention_heads": 16, "model_type": "siglip_vision_model"}})");
}

// The text keys of Qwen 2.5 VL 3B.
json Qwen25VlText() {
  return json::parse(R"({
    "hidden_size": 2048, "intermediate_size": 11008, "num_attention_heads": 16,
    "num_hidden_layers": 36, "num_key_value_heads": 2, "max_position_embeddings": 128000,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "use_sliding_window": false,
    "sliding_window": 32768, "max_window_layers": 70, "vocab_size": 151936,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}})");
}

json Qwen25Vl() {
  return {{"architectures", {"Qwen2_5_VLForConditionalGeneration"}}, {"model_type", "qwen2_5_vl"}};
}

json Mistral3(const json& text) {
  return {{"architectures", {"Mistral3ForConditionalGeneration"}},
          {"model_type", "mistral3"},
          {"text_config", text}};
}

TEST(TextPartConfig, KeysAreTextConfigs) {
  const ModelConfig c = Parse(Gemma3());
  EXPECT_EQ(c.architecture, "Gemma3ForConditionalGeneration");
  EXPECT_EQ(c.model_type, "gemma3");
  EXPECT_EQ(c.hidden_size, 2560);
  EXPECT_EQ(c.layers.size(), 34u);
  EXPECT_EQ(c.vocab_size, 262208);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_EQ(c.qk_norm, HeadNorm::kHead);
  EXPECT_EQ(c.norm, NormKind::kRmsPlusOne);
  EXPECT_EQ(c.block_order, BlockOrder::kSandwich);
  // Those that are beside it.
  EXPECT_EQ(c.dtype, DType::kBF16);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(1, 106));
}

TEST(TextPartConfig, Gemma3Of27B) {
  json config = Gemma3();
  config["text_config"] = json::parse(R"({
    "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504, "model_type": "gemma3_text",
    "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16,
    "query_pre_attn_scalar": 168, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024})");
  const ModelConfig c = Parse(config);
  EXPECT_EQ(c.layers.size(), 62u);
  EXPECT_EQ(c.layers[0].gqa.num_q_heads, 32);
  EXPECT_EQ(c.layers[0].gqa.num_kv_heads, 16);
  EXPECT_EQ(c.layers[0].gqa.head_dim, 128);
  EXPECT_FLOAT_EQ(c.attention_scale, 1 / std::sqrt(168.0f));
  EXPECT_EQ(c.ropes[c.layers[5].gqa.rope].factor, 8);
  EXPECT_EQ(c.ropes[c.layers[0].gqa.rope].type, RopeType::kDefault);
}

TEST(TextPartConfig, MistralSmall31) {
  const ModelConfig c = Parse(Mistral3(json::parse(R"({
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "intermediate_size": 32768,
    "max_position_embeddings": 131072, "model_type": "mistral", "num_attention_heads": 32,
    "num_hidden_layers": 40, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
    "rope_theta": 1000000000.0, "sliding_window": null, "vocab_size": 131072})")));
  EXPECT_EQ(c.layers.size(), 40u);
  EXPECT_EQ(c.layers[0].gqa.head_dim, 128);  // not 5120 / 32
  EXPECT_EQ(c.layers[0].gqa.sliding_window, 0);
  EXPECT_EQ(c.ropes[0].theta, 1e9);
  EXPECT_FALSE(c.tie_word_embeddings);
}

TEST(TextPartConfig, TheTypeAloneNamesTheFamily) {
  json config = Gemma3();
  config.erase("architectures");
  EXPECT_EQ(Parse(config).architecture, "Gemma3ForConditionalGeneration");
}

TEST(TextPartConfig, DefaultsAreThoseOfTheTextPartsClass) {
  const ModelConfig qwen2 = Parse(Qwen25Vl());
  EXPECT_EQ(qwen2.vocab_size, 152064);
  EXPECT_EQ(qwen2.hidden_size, 8192);
  EXPECT_EQ(qwen2.layers[0].intermediate_size, 29568);
  EXPECT_EQ(qwen2.layers.size(), 80u);
  EXPECT_EQ(qwen2.max_position_embeddings, 32768);
  EXPECT_FLOAT_EQ(qwen2.norm_eps, 1e-5f);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.o_bias || qwen2.tie_word_embeddings);
  EXPECT_THAT(qwen2.eos_token_ids, ElementsAre(151645));

  const ModelConfig qwen3 =
      Parse({{"model_type", "qwen3_vl"}, {"text_config", {{"model_type", "qwen3_vl_text"}}}});
  EXPECT_EQ(qwen3.architecture, "Qwen3VLForConditionalGeneration");
  EXPECT_EQ(qwen3.vocab_size, 151936);
  EXPECT_EQ(qwen3.layers[0].intermediate_size, 22016);
  EXPECT_EQ(qwen3.max_position_embeddings, 128000);
  EXPECT_EQ(qwen3.qk_norm, HeadNorm::kHead);
  EXPECT_TRUE(qwen3.eos_token_ids.empty());

  const ModelConfig mistral = Parse(Mistral3(json::object()));
  EXPECT_EQ(mistral.hidden_size, 4096);
  EXPECT_EQ(mistral.vocab_size, 32000);
  EXPECT_FALSE(mistral.tie_word_embeddings);
}

// Windows begin at layer 80 of the class, and at 28 of Qwen 2's.
TEST(TextPartConfig, QwenVlHasWindowsWhereItsClassHas) {
  const auto num_windows = [](json text) {
    text["use_sliding_window"] = true;
    text["sliding_window"] = 128;
    text.erase("max_window_layers");
    json config = Qwen25Vl();
    config["text_config"] = text;
    const ModelConfig parsed = Parse(config);
    return std::count_if(parsed.layers.begin(), parsed.layers.end(),
                         [](const LayerConfig& layer) { return layer.gqa.sliding_window != 0; });
  };
  EXPECT_EQ(num_windows(Qwen25VlText()), 0);
  json deeper = Qwen25VlText();
  deeper["num_hidden_layers"] = 82;
  EXPECT_EQ(num_windows(deeper), 2);
}

// Three positions of a token that are equal are one.
TEST(TextPartConfig, QwenVlsPositionsAreThoseOfText) {
  json nested = Qwen25Vl();
  nested["text_config"] = Qwen25VlText();
  json flat = Qwen25Vl();
  flat.update(Qwen25VlText());
  for (const json& config : {nested, flat}) {
    const ModelConfig c = Parse(config);
    EXPECT_EQ(c.hidden_size, 2048);
    EXPECT_EQ(c.layers.size(), 36u);
    EXPECT_EQ(c.ropes[0].type, RopeType::kDefault);
    EXPECT_EQ(c.ropes[0].theta, 1e6);
  }
  nested["text_config"]["rope_scaling"] = {{"type", "yarn"},
                                           {"factor", 4.0},
                                           {"mrope_section", {16, 24, 24}},
                                           {"original_max_position_embeddings", 32768}};
  EXPECT_EQ(Parse(nested).ropes[0].type, RopeType::kYarn);
}

TEST(TextPartConfig, OfKeysInTwoPlacesOneCounts) {
  const json none = json::object();
  const auto with = [](const json& top, const json& text) {
    json config = Gemma3();
    config.update(top);
    config["text_config"].update(text);
    return Parse(config);
  };
  EXPECT_EQ(with(none, {{"dtype", "float16"}}).dtype, DType::kF16);
  EXPECT_EQ(with({{"dtype", "float16"}}, none).dtype, DType::kF16);
  EXPECT_EQ(with({{"dtype", "float32"}}, {{"torch_dtype", "float16"}}).dtype, DType::kF16);
  EXPECT_THAT(with(none, {{"eos_token_id", 7}}).eos_token_ids, ElementsAre(7));
  EXPECT_THAT(with(none, {{"eos_token_id", nullptr}}).eos_token_ids, ElementsAre(1, 106));
  EXPECT_THAT(with({{"eos_token_id", nullptr}}, {{"eos_token_id", 7}}).eos_token_ids,
              ElementsAre(7));
  EXPECT_EQ(with({{"bos_token_id", 5}}, none).bos_token_id, 5);
  EXPECT_EQ(with({{"bos_token_id", 5}}, {{"bos_token_id", 6}}).bos_token_id, 6);
  EXPECT_FALSE(with({{"tie_word_embeddings", false}}, none).tie_word_embeddings);
  EXPECT_FALSE(with(none, {{"tie_word_embeddings", false}}).tie_word_embeddings);
  EXPECT_TRUE(
      with({{"tie_word_embeddings", true}}, {{"tie_word_embeddings", false}}).tie_word_embeddings);
  // The shapes of the text part are read nowhere else.
  EXPECT_EQ(with({{"hidden_size", 64}}, none).hidden_size, 2560);
}

TEST(TextPartConfig, ErrorsNameThePlace) {
  json config = Gemma3();
  config["text_config"]["hidden_size"] = 0;
  EXPECT_THAT(Error(config).message(), HasSubstr("config.json: text_config: hidden_size"));
  config = Gemma3();
  config["tie_word_embeddings"] = "yes";
  EXPECT_THAT(Error(config).message(), HasSubstr("config.json: tie_word_embeddings"));
  config = Gemma3();
  config["eos_token_id"] = 262208;
  EXPECT_THAT(Error(config).message(), HasSubstr("config.json: eos_token_id"));
  config["text_config"] = 5;
  EXPECT_EQ(Error(config).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Error(config).message(), HasSubstr("text_config"));
  config.erase("text_config");
  EXPECT_EQ(Error(config).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Error(config).message(),
              AllOf(HasSubstr("text_config is missing"), HasSubstr("Gemma3ForCond")));
  const absl::Status other = Error(Mistral3({{"model_type", "mamba3"}}));
  EXPECT_EQ(other.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(other.message(), AllOf(HasSubstr("config.json: text_config: model_type"),
                                     HasSubstr("\"mamba3\" is not supported in Mistral3ForCond"),
                                     HasSubstr("supported: mistral, ministral3")));
}

// Ministral 3's config.json, without the vision part.
TEST(TextPartConfig, TheTextPartsTypeChoosesTheFamily) {
  const json published = json::parse(R"({
    "architectures": ["Mistral3ForConditionalGeneration"], "dtype": "bfloat16",
    "image_token_index": 10, "model_type": "mistral3", "text_config": {
      "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 3072,
      "initializer_range": 0.02, "intermediate_size": 9216, "max_position_embeddings": 262144,
      "model_type": "ministral3", "num_attention_heads": 32, "num_hidden_layers": 26,
      "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
      "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0,
        "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 16384, "rope_theta": 1000000.0, "rope_type": "yarn",
        "type": "yarn"},
      "sliding_window": null, "tie_word_embeddings": true, "use_cache": true,
      "vocab_size": 131072}, "vision_config": {"model_type": "pixtral"}})");
  const ModelConfig c = Parse(published);
  EXPECT_EQ(c.architecture, "Mistral3ForConditionalGeneration");
  EXPECT_EQ(c.layers.size(), 26u);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_EQ(c.ropes[0].type, RopeType::kYarn);
  EXPECT_EQ(c.ropes[0].query_scale_beta, 0.1);
  EXPECT_EQ(c.ropes[0].original_max_position_embeddings, 16384);
  EXPECT_EQ(MaxSequenceLength(c), 262144);
  EXPECT_EQ(Parse(Mistral3({{"model_type", "ministral3"}})).layers.size(), 34u);
  EXPECT_EQ(Parse(Mistral3({{"model_type", "mistral"}})).layers.size(), 32u);
  // It has only its architecture in common with Mistral Small 3.1's class, which is named once.
  const std::string refusal(Error({{"architectures", {"NoSuchModel"}}}).message());
  EXPECT_EQ(refusal.find("Mistral3ForCond"), refusal.rfind("Mistral3ForCond"));
}

constexpr char kText[] = R"({"vocab_size": 48, "hidden_size": 32, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "sliding_window": null})";

// Where checkpoints have the text part, and its head.
struct Form {
  const char* prefix;
  const char* head;
};
constexpr Form kForms[] = {{"model.", "lm_head"},
                           {"model.language_model.", "lm_head"},
                           {"language_model.model.", "language_model.lm_head"},
                           {"language_model.model.", "lm_head"}};

class TextPartTest : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
    UseConfig(Mistral3(json::parse(kText)));
  }
  void TearDown() override {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("after"));
  }

  void UseConfig(const json& config) {
    folder_.Write("config.json", config.dump());
    Write({});
    config_ = *LoadModelConfig(folder_.path());
    plain_ = TensorsOf(config_);
  }

  // The text part's tensors in a form.
  std::vector<FileTensor> TensorsIn(const Form& form) const {
    std::vector<FileTensor> tensors = plain_;
    for (FileTensor& tensor : tensors) {
      const bool is_head = absl::StartsWith(tensor.name, "lm_head.");
      tensor.name = is_head ? absl::StrCat(form.head, tensor.name.substr(strlen("lm_head")))
                            : absl::StrCat(form.prefix, tensor.name.substr(strlen("model.")));
    }
    return tensors;
  }

  void Write(const std::vector<FileTensor>& tensors) {
    folder_.Write("model.safetensors", FileOf(tensors));
  }

  absl::StatusOr<Weights> Load(const std::vector<FileTensor>& tensors) {
    Write(tensors);
    return Weights::Load(*backend_, config_, folder_.path(), {.dtype = DType::kF32});
  }

  absl::Status LoadError(std::vector<FileTensor> tensors, const char* added) {
    tensors.push_back({added, "F32", {1}, BytesOf({1})});
    const absl::Status status = Load(tensors).status();
    EXPECT_EQ(Weights::CheckFiles(config_, folder_.path()).status(), status);
    return status;
  }

  const std::unique_ptr<Backend> backend_ = *OpenBackend({});
  const TempFolder folder_;
  std::ostringstream log_;
  ModelConfig config_;
  std::vector<FileTensor> plain_;  // as a text model has them
};

std::vector<float> ValuesOf(const Tensor& tensor) {
  return {tensor.as<float>(), tensor.as<float>() + tensor.num_elements()};
}

std::string BytesOf(const LinearWeight& weight) {
  return {static_cast<const char*>(weight.data), static_cast<size_t>(weight.size_bytes())};
}

TEST_F(TextPartTest, IsTheSameInEachForm) {
  const absl::StatusOr<Weights> expected = Load(plain_);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const Form& form : kForms) {
    SCOPED_TRACE(absl::StrCat(form.prefix, " ", form.head));
    const absl::StatusOr<Weights> weights = Load(TensorsIn(form));
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(BytesOf(weights->embedding()), BytesOf(expected->embedding()));
    EXPECT_EQ(BytesOf(weights->lm_head()), BytesOf(expected->lm_head()));
    EXPECT_EQ(ValuesOf(weights->final_norm()), ValuesOf(expected->final_norm()));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(BytesOf(weights->layer(i).gqa.qkv), BytesOf(expected->layer(i).gqa.qkv));
      EXPECT_EQ(ValuesOf(weights->layer(i).mlp_norm), ValuesOf(expected->layer(i).mlp_norm));
    }
    EXPECT_TRUE(Weights::CheckFiles(config_, folder_.path()).ok());
  }
}

TEST_F(TextPartTest, OtherPartsAreLeftUnreadAndNamedInOneLine) {
  for (const Form& form : kForms) {
    std::vector<FileTensor> tensors = TensorsIn(form);
    for (const char* name :
         {"model.visual.blocks.0.norm1.weight", "model.visual.merger.norm.weight",
          "visual.patch_embed.proj.weight", "vision_tower.post_layernorm.bias",
          "model.vision_tower.head.probe", "multi_modal_projector.norm.weight",
          "model.multi_modal_projector.linear_1.weight", "audio_tower.x", "model.audio_tower.x",
          "embed_vision.x", "model.embed_vision.x", "embed_audio.x", "model.embed_audio.x",
          "vision_embedder.x", "model.vision_embedder.x", "mtp.layers.0.input_layernorm.weight"}) {
      tensors.push_back({name, "U8", {1}, "x"});
    }
    log_.str("");
    const absl::StatusOr<Weights> weights = Load(tensors);
    EXPECT_TRUE(weights.ok()) << weights.status();
    EXPECT_THAT(log_.str(), AllOf(HasSubstr("left unread: audio_tower (1), embed_audio (1)"),
                                  HasSubstr("model.visual (2), "), HasSubstr("mtp (1), "),
                                  HasSubstr("visual (1)"), Not(HasSubstr("model.layers"))));
    EXPECT_EQ(log_.str().find('\n'), log_.str().size() - 1);
  }
  log_.str("");
  EXPECT_TRUE(Load(plain_).ok());
  EXPECT_EQ(log_.str(), "");
}

TEST_F(TextPartTest, WhatBelongsToNoPartIsRefusedByName) {
  for (const Form& form : kForms) {
    for (const char* name : {"visualizer.weight", "model.visual", "layers.0.visual.weight", "mtp",
                             "language_model.visual.weight", "model.layers.9.mlp.x"}) {
      const absl::Status status = LoadError(TensorsIn(form), name);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("1 tensors that no layer"), HasSubstr(name)));
    }
  }
  // With a second text part, nobody knows which is which.
  for (const char* name :
       {"model.language_model.embed_tokens.weight", "language_model.lm_head.weight"}) {
    EXPECT_THAT(std::string(LoadError(plain_, name).message()), HasSubstr(name));
  }
}

TEST_F(TextPartTest, ACheckpointWithoutOneIsRefused) {
  const absl::Status status =
      LoadError(TensorsIn({"thinker.model.", "thinker.lm_head"}), "visual.x");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no text part"), HasSubstr("model.embed_tokens.weight, "),
                    HasSubstr("language_model.model.embed_tokens.weight")));
}

TEST_F(TextPartTest, WhatIsMissingIsNamedAsTheCheckpointWouldNameIt) {
  std::vector<FileTensor> tensors = TensorsIn(kForms[2]);
  std::erase_if(tensors, [](const FileTensor& tensor) {
    return absl::StrContains(tensor.name, "lm_head") ||
           absl::StrContains(tensor.name, "layers.1.mlp.down_proj");
  });
  EXPECT_THAT(std::string(Load(tensors).status().message()),
              AllOf(HasSubstr("lacks 2 tensors"), HasSubstr(" language_model.lm_head.weight"),
                    HasSubstr("language_model.model.layers.1.mlp.down_proj.weight")));
}

// A copy of a tied embedding is not read; a head in another form is one of its own.
TEST_F(TextPartTest, ATiedHeadMayBeThere) {
  json config = Mistral3(json::parse(kText));
  config["tie_word_embeddings"] = true;
  UseConfig(config);
  for (const Form& form : kForms) {
    std::vector<FileTensor> tensors = TensorsIn(form);
    const std::string head = form.head;
    tensors.push_back({head + ".weight", "U8", {1}, "x"});
    const absl::StatusOr<Weights> weights = Load(tensors);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(weights->lm_head().data, weights->embedding().data);
    tensors.back().name = head + ".qweight";
    EXPECT_THAT(std::string(Load(tensors).status().message()),
                AllOf(HasSubstr("a head of its own"), HasSubstr(head + ".qweight")));
  }
}

// transformers 5 writes "true" for Mistral 3 and "false" for its text part, tied or not.
TEST_F(TextPartTest, WhereConfigJsonContradictsItselfTheWeightsTellWhetherTheHeadIsTied) {
  const std::vector<FileTensor> untied = TensorsIn(kForms[2]);
  std::vector<FileTensor> tied = untied;
  std::erase_if(tied,
                [](const FileTensor& tensor) { return absl::StrContains(tensor.name, "lm_head"); });
  for (const bool top : {true, false}) {
    json config = Mistral3(json::parse(kText));
    config["tie_word_embeddings"] = top;
    config["text_config"]["tie_word_embeddings"] = !top;
    folder_.Write("config.json", config.dump());
    Write(untied);
    EXPECT_FALSE(LoadModelConfig(folder_.path())->tie_word_embeddings);
    Write(plain_);
    EXPECT_FALSE(LoadModelConfig(folder_.path())->tie_word_embeddings);
    Write(tied);
    EXPECT_TRUE(LoadModelConfig(folder_.path())->tie_word_embeddings);
    // Where one place says it, the weights are not asked.
    config["text_config"].erase("tie_word_embeddings");
    folder_.Write("config.json", config.dump());
    EXPECT_EQ(LoadModelConfig(folder_.path())->tie_word_embeddings, top);
  }
}

// Names in quantization_config are those of the checkpoint's modules.
TEST_F(TextPartTest, QuantizedModulesAreFoundByTheirNamesInTheCheckpoint) {
  const auto use = [&](const json& left_out) {
    json config = Mistral3(json::parse(kText));
    config["quantization_config"] = {{"quant_method", "fp8"},
                                     {"weight_block_size", {128, 128}},
                                     {"modules_to_not_convert", left_out}};
    folder_.Write("config.json", config.dump());
    config_ = *LoadModelConfig(folder_.path());
  };
  const std::vector<FileTensor> tensors = TensorsIn(kForms[2]);
  use({"language_model.lm_head", "language_model.model.layers.0", "language_model.model.layers.1"});
  EXPECT_TRUE(Load(tensors).ok()) << Load(tensors).status();
  use({"language_model.lm_head", "model.language_model.layers.0", "language_model.model.layers.1"});
  EXPECT_THAT(std::string(Load(tensors).status().message()),
              HasSubstr("language_model.model.layers.0.self_attn.q_proj"));
}

}  // namespace
}  // namespace quire
