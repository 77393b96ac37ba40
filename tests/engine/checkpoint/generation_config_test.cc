#include "engine/checkpoint/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<GenerationConfig> Load(absl::string_view text) {
  const TempFolder folder;
  folder.Write("generation_config.json", text);
  return LoadGenerationConfig(folder.path());
}

TEST(GenerationConfig, AbsentFileIsEmpty) {
  const TempFolder folder;
  const auto config = LoadGenerationConfig(folder.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->temperature, std::nullopt);
  EXPECT_THAT(config->eos_token_ids, IsEmpty());
}

TEST(GenerationConfig, ReadsWhatItKnows) {
  const auto config = Load(R"({"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.05,
      "repetition_penalty": 1.1, "max_new_tokens": 2048, "eos_token_id": [151645, 151643],
      "do_sample": true, "transformers_version": "4.51.0"})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FLOAT_EQ(*config->temperature, 0.6f);
  EXPECT_FLOAT_EQ(*config->top_p, 0.95f);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_FLOAT_EQ(*config->min_p, 0.05f);
  EXPECT_FLOAT_EQ(*config->repetition_penalty, 1.1f);
  EXPECT_EQ(config->max_new_tokens, 2048);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(151645, 151643));
}

TEST(GenerationConfig, OneEosTokenAndTopKOff) {
  const auto config = Load(R"({"eos_token_id": 2, "top_k": -1})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2));
  EXPECT_EQ(config->top_k, 0);
}

// As transformers' generate: without sampling there is no temperature and nothing that cuts.
TEST(GenerationConfig, WithoutSamplingIsGreedy) {
  const auto config = Load(R"({"do_sample": false, "temperature": 0.6, "top_p": 0.9, "top_k": 20,
      "min_p": 0.1, "repetition_penalty": 1.1, "max_new_tokens": 9})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->temperature, 0.0f);
  EXPECT_EQ(config->top_p, std::nullopt);
  EXPECT_EQ(config->top_k, std::nullopt);
  EXPECT_EQ(config->min_p, std::nullopt);
  EXPECT_FLOAT_EQ(*config->repetition_penalty, 1.1f);
  EXPECT_EQ(config->max_new_tokens, 9);
  EXPECT_EQ(Load(R"({"do_sample": null})")->temperature, std::nullopt);
  EXPECT_EQ(Load(R"({"do_sample": true})")->temperature, std::nullopt);
  EXPECT_THAT(Load(R"({"do_sample": "no"})").status().message(),
              HasSubstr("do_sample must be true or false"));
}

TEST(GenerationConfig, TellsWhatHasNoEffect) {
  EXPECT_THAT(Load(R"({"num_beams": 1, "typical_p": 1.0, "suppress_tokens": [], "max_time": null,
                       "bad_words_ids": false, "no_repeat_ngram_size": 0, "guidance_scale": 1})")
                  ->unused_keys,
              IsEmpty());
  EXPECT_THAT(
      Load(R"({"num_beams": 4, "typical_p": 0.9, "suppress_tokens": [3], "x": 1, "top_k": 3})")
          ->unused_keys,
      ElementsAre("num_beams", "typical_p", "suppress_tokens"));
}

TEST(GenerationConfig, MalformedFilesNameTheKey) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"temperature": -1})", "generation_config.json: temperature is -1"},
      {R"({"top_p": 0})", "top_p is 0"},
      {R"({"top_p": "x"})", "top_p must be a number"},
      {R"({"min_p": 2})", "min_p is 2"},
      {R"({"repetition_penalty": 0})", "repetition_penalty is 0"},
      {R"({"max_new_tokens": 0})", "max_new_tokens is 0"},
      {R"({"eos_token_id": [1, -1]})", "eos_token_id is -1"},
      {R"([])", "must hold one JSON object"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = Load(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
}

}  // namespace
}  // namespace quire
