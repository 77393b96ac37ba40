#include "server/text/answer/model_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr char kQwen[] = "return a json object within <tool_call></tool_call> XML tags";
constexpr char kThinking[] = "{% if '</think>' in content %}<|im_start|>assistant\\n<think>\\n";

// gpt-oss.
constexpr char kHarmony[] = "{{- \"<|start|>assistant<|channel|>analysis<|message|>\" }}";

// The letters a and b, white space, and the tags as tokens; those of reasoning are not special.
std::shared_ptr<const Tokenizer> TokenizerWith(const std::vector<std::string>& tags) {
  std::string vocab = R"("a": 0, "b": 1, "Ġ": 2, "Ċ": 3)";
  std::string added;
  int id = 4;
  for (const std::string& tag : tags) {
    added += (added.empty() ? R"({"id": )" : R"(, {"id": )") + std::to_string(id++) +
             R"(, "content": ")" + tag + R"(", "special": )" +
             (tag.find("think") == std::string::npos ? "true" : "false") +
             R"(, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})";
  }
  const auto tokenizer = Tokenizer::FromJson(R"({"added_tokens": [)" + added +
                                             R"(], "decoder": {"type": "ByteLevel"},
                             "model": {"type": "BPE", "vocab": {)" +
                                             vocab + R"(}, "merges": []}})");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *tokenizer;
}

ToolFormat Detected(const std::string& chat_template) {
  return ModelAnswers("auto", "auto", TokenizerWith({}), chat_template).tools();
}

TEST(ModelAnswersTest, ChatTemplatesShowHowCallsAreWritten) {
  EXPECT_EQ(Detected(""), ToolFormat::kNone);
  EXPECT_EQ(Detected("{{ messages }}"), ToolFormat::kNone);
  EXPECT_EQ(Detected(kQwen), ToolFormat::kHermes);
  EXPECT_EQ(Detected("<tool_call>\n<function=example_function_name>\n<parameter=p>"),
            ToolFormat::kQwen3Coder);
  EXPECT_EQ(Detected("{{- \"[TOOL_CALLS] [\" }}"), ToolFormat::kMistral);
  EXPECT_EQ(Detected("{{- '<|tool_call>call:' }} {{- '}<tool_call|>' }}"), ToolFormat::kGemma4);
  EXPECT_EQ(Detected(kHarmony), ToolFormat::kHarmony);
  EXPECT_EQ(Detected("<|tool_call|>[{}]<|/tool_call|>"), ToolFormat::kNone);  // Phi-4-mini
  EXPECT_EQ(Detected("<|start_header_id|> {{- '\"parameters\": ' }}"), ToolFormat::kLlama3Json);
  EXPECT_EQ(Detected("<|start_header_id|>user<|end_header_id|>"), ToolFormat::kNone);
  // GLM and Hunyuan, which write something else between the same tags.
  EXPECT_EQ(Detected("<tool_call>{function-name}\n<arg_key>"), ToolFormat::kNone);
  EXPECT_EQ(Detected("<tool_call>name<tool_sep>"), ToolFormat::kNone);
}

TEST(ModelAnswersTest, TokensOrTemplatesShowReasoning) {
  const auto open = [](const std::vector<std::string>& tokens, const std::string& chat_template) {
    return ModelAnswers("auto", "auto", TokenizerWith(tokens), chat_template).reasoning().open;
  };
  EXPECT_EQ(open({}, kQwen), "");
  EXPECT_EQ(open({}, kThinking), "<think>");
  EXPECT_EQ(open({"<think>", "</think>"}, ""), "<think>");
  EXPECT_EQ(open({"[THINK]", "[/THINK]"}, ""), "[THINK]");
  EXPECT_EQ(open({"<|channel>", "<channel|>"}, ""), "<|channel>");
  EXPECT_EQ(open({}, "{{- '<|channel>thought\\n<channel|>' -}}"), "<|channel>");
  EXPECT_EQ(open({}, kHarmony), "<|channel|>analysis<|message|>");
  EXPECT_EQ(open({}, "<|channel|>analysis"), "");
}

TEST(ModelAnswersTest, ASettingWins) {
  const ModelAnswers answers("mistral", "none", TokenizerWith({}), absl::StrCat(kQwen, kThinking));
  EXPECT_EQ(answers.tools(), ToolFormat::kMistral);
  EXPECT_TRUE(answers.reasoning().is_none());
}

TEST(ModelAnswersTest, TagsThatAreSpecialTokensAreShown) {
  const ModelAnswers answers(
      "auto", "auto", TokenizerWith({"<think>", "</think>", "<tool_call>", "<|im_end|>"}), kQwen);
  EXPECT_THAT(answers.TagTokens(/*with_tools=*/true), ElementsAre(6));
  EXPECT_THAT(answers.TagTokens(/*with_tools=*/false), IsEmpty());
}

TEST(ModelAnswersTest, TagsWithinCallsAreShown) {
  const ModelAnswers answers("gemma4", "gemma4",
                             TokenizerWith({"<|tool_call>", "<tool_call|>", R"(<|\"|>)",
                                            "<|channel>", "<channel|>", "<turn|>"}),
                             "");
  EXPECT_THAT(answers.TagTokens(/*with_tools=*/true), UnorderedElementsAre(4, 5, 6, 7, 8));
  EXPECT_THAT(answers.TagTokens(/*with_tools=*/false), UnorderedElementsAre(7, 8));
}

// Harmony's are needed with or without tools, and tell whether a prompt ends within reasoning.
TEST(ModelAnswersTest, TagsOfHarmony) {
  const auto tokenizer =
      TokenizerWith({"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>",
                     "<|call|>", "<|return|>", "<|other|>", "analysis", "final"});
  const ModelAnswers answers("auto", "auto", tokenizer, kHarmony);
  for (const bool with_tools : {false, true}) {
    EXPECT_THAT(answers.TagTokens(with_tools), UnorderedElementsAre(4, 5, 6, 7, 8, 9, 10));
  }
  EXPECT_TRUE(answers.BeginsInReasoning(std::vector<TokenId>{4, 0, 5, 12, 7}));
  EXPECT_FALSE(answers.BeginsInReasoning(std::vector<TokenId>{4, 0, 5, 13, 7}));
  EXPECT_FALSE(answers.BeginsInReasoning(std::vector<TokenId>{4, 0}));
  const ModelAnswers calls("openai", "none", tokenizer, "");
  EXPECT_THAT(calls.TagTokens(/*with_tools=*/false), IsEmpty());
  EXPECT_THAT(calls.TagTokens(/*with_tools=*/true), UnorderedElementsAre(4, 5, 6, 7, 8, 9, 10));
  EXPECT_TRUE(ModelAnswers("none", "openai_gptoss", tokenizer, "").reasoning().in_channels);
}

TEST(ModelAnswersTest, APromptMayEndWithinReasoning) {
  const auto tokenizer = TokenizerWith({"<think>", "</think>"});
  const ModelAnswers qwen("none", "qwen3", tokenizer, "");
  const ModelAnswers deepseek("none", "deepseek_r1", tokenizer, "");
  const std::vector<TokenId> plain = {0, 1}, open = {0, 4, 3, 3}, closed = {4, 3, 3, 5, 3},
                             before = {4, 0};
  EXPECT_FALSE(qwen.BeginsInReasoning(plain));
  EXPECT_TRUE(qwen.BeginsInReasoning(open));
  EXPECT_FALSE(qwen.BeginsInReasoning(closed));
  EXPECT_FALSE(qwen.BeginsInReasoning(before));
  EXPECT_TRUE(deepseek.BeginsInReasoning(plain));
  EXPECT_TRUE(deepseek.BeginsInReasoning(open));
  EXPECT_FALSE(deepseek.BeginsInReasoning(closed));
  const auto labelled = TokenizerWith({"<|channel>", "<channel|>", "thought"});
  const ModelAnswers gemma("none", "gemma4", labelled, "");
  EXPECT_TRUE(gemma.BeginsInReasoning(std::vector<TokenId>{0, 4, 6, 3}));
  EXPECT_TRUE(gemma.BeginsInReasoning(std::vector<TokenId>{0, 4}));
  EXPECT_FALSE(gemma.BeginsInReasoning(std::vector<TokenId>{0, 4, 6, 3, 5}));
  EXPECT_FALSE(gemma.BeginsInReasoning(std::vector<TokenId>{0, 6, 3}));
  EXPECT_FALSE(ModelAnswers("none", "none", tokenizer, "").BeginsInReasoning(open));
  EXPECT_TRUE(qwen.GoesOnInReasoning("<think>a"));
  EXPECT_FALSE(qwen.GoesOnInReasoning("<think>a</think>b"));
  EXPECT_FALSE(qwen.GoesOnInReasoning("a"));
  EXPECT_TRUE(deepseek.GoesOnInReasoning("a"));
}

}  // namespace
}  // namespace quire
