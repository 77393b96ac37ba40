// A folder's config.json, and what else in it says what the model is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/test_configs.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::string OneTensor(absl::string_view dtype) {
  return SafetensorsBytes(
      absl::StrCat("{\"a\":{\"dtype\":\"", dtype, "\",\"shape\":[2],\"data_offsets\":[0,4]}}"),
      "data");
}

TEST(LoadModelConfig, WithoutADTypeTheWeightsSayIt) {
  const TempFolder folder;
  json config = Llama();
  config.erase("torch_dtype");
  config.erase("dtype");
  folder.Write("config.json", config.dump());
  EXPECT_EQ(LoadModelConfig(folder.path())->dtype, DType::kF32);  // no weights
  folder.Write("model.safetensors", OneTensor("BF16"));
  EXPECT_EQ(LoadModelConfig(folder.path())->dtype, DType::kBF16);
  config["dtype"] = nullptr;
  folder.Write("config.json", config.dump());
  EXPECT_EQ(LoadModelConfig(folder.path())->dtype, DType::kBF16);
  config["torch_dtype"] = "float16";
  folder.Write("config.json", config.dump());
  EXPECT_EQ(LoadModelConfig(folder.path())->dtype, DType::kF16);
  config["dtype"] = "float32";
  folder.Write("config.json", config.dump());
  EXPECT_EQ(LoadModelConfig(folder.path())->dtype, DType::kF32);
}

TEST(LoadModelConfig, PythonsConstantsAreRead) {
  const TempFolder folder;
  const std::string text = Llama().dump();
  folder.Write("config.json",
               "{\"time_step_limit\": [0.0, Infinity], \"x\": NaN, " + text.substr(1));
  EXPECT_EQ(LoadModelConfig(folder.path())->vocab_size, 128256);
  folder.Write("config.json", text.substr(0, text.size() - 1) + ", \"rms_norm_eps\": Infinity}");
  EXPECT_THAT(LoadModelConfig(folder.path()).status().message(), HasSubstr("rms_norm_eps is inf"));
}

TEST(LoadModelConfig, AnEmbeddingModelIsCalledOne) {
  for (const char* architecture :
       {"BertModel", "Qwen2Model", "XLMRobertaModel", "MistralModel", "ModernBertForMaskedLM",
        "T5EncoderModel", "LlamaBidirectionalEmbeddingModel"}) {
    json config = Llama();
    config["architectures"] = {architecture};
    EXPECT_THAT(Error(config).message(),
                AllOf(HasSubstr(architecture), HasSubstr("this is an embedding model"),
                      HasSubstr("/v1/embeddings is not there yet")));
    EXPECT_EQ(Error(config).code(), absl::StatusCode::kUnimplemented);
  }
  EXPECT_THAT(Error({{"model_type", "bert"}}).message(), HasSubstr("this is an embedding model"));
  EXPECT_THAT(Error({{"architectures", {"Qwen3ForSequenceClassification"}}}).message(),
              HasSubstr("this is a classifier or reranker"));
  for (const char* other : {"GPT2LMHeadModel", "MambaForCausalLM"}) {
    EXPECT_THAT(Error({{"architectures", {other}}}).message(), HasSubstr("not supported"));
  }
  for (const json& changes :
       {json{{"use_bidirectional_attention", true}}, json{{"is_causal", false}}}) {
    EXPECT_THAT(Error(Llama(changes)).message(), HasSubstr("this is an embedding model"));
  }
  EXPECT_THAT(Error(Llama({{"is_encoder_decoder", true}})).message(),
              HasSubstr("is_encoder_decoder is true"));
  Parse(Llama({{"is_causal", true}, {"is_encoder_decoder", false}}));
  // Whatever its architecture: sentence-transformers says what it is for.
  for (const char* file : {"modules.json", "1_Pooling/config.json"}) {
    const TempFolder folder;
    folder.Write("config.json", Llama().dump());
    folder.Write(file, "[]");
    EXPECT_THAT(LoadModelConfig(folder.path()).status().message(),
                AllOf(HasSubstr(folder.path()), HasSubstr("is an embedding model")));
  }
}

TEST(LoadModelConfig, SaysWhatIsMissing) {
  const TempFolder folder;
  const absl::Status status = LoadModelConfig(folder.path()).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("config.json not found; pass a Hugging Face model folder"));
  folder.Write("config.json", Llama().dump());
  EXPECT_EQ(LoadModelConfig(folder.path())->vocab_size, 128256);
  folder.Write("config.json", std::string((32 << 20) + 1, ' '));
  EXPECT_THAT(LoadModelConfig(folder.path()).status().message(),
              HasSubstr("has 33,554,433 bytes; at most 33,554,432 are read"));
}

}  // namespace
}  // namespace quire
