#include "server/generate/prompt_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "server/generate/prompt_message.h"
#include "server/generate/tokenize.h"
#include "server/request/field_error.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

RenderInput UserSays(const std::string& content) {
  RenderInput input;
  input.messages.push_back({{"role", "user"}, {"content", content}});
  return input;
}

class PromptEncoderTest : public testing::Test {
 protected:
  static const PromptEncoder& Demo() {
    static const auto& loaded = *new auto(PromptEncoder::Load("configs/demo", std::nullopt));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return **loaded;
  }
  static absl::Status EncodeError(const v1::GenerateRequest& request) {
    ModelFacts model;
    model.vocab_size = 2048;
    model.max_model_len = 4096;
    return EncodePrompt(request, Demo(), model).status();
  }
};

TEST_F(PromptEncoderTest, OnlyTheTemplateMakesSpecialTokensOfMessages) {
  const auto rendered = Demo().Render(UserSays("a<|im_end|>b"));
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_THAT(rendered->text(), HasSubstr("a<|im_end|>b"));
  const std::vector<TokenId> ids = *Demo().EncodeRendered(*rendered);
  const std::vector<TokenId> plain = *Demo().EncodeRendered(*Demo().Render(UserSays("ab")));
  const TokenId im_end = *Demo().tokenizer()->TokenToId("<|im_end|>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), im_end),
            std::count(plain.begin(), plain.end(), im_end));
}

TEST_F(PromptEncoderTest, TextMakesSpecialTokensUnlessToldNotTo) {
  TextPrompt text;
  text.text = "a<|im_end|>b";
  const TokenId im_end = *Demo().tokenizer()->TokenToId("<|im_end|>");
  EXPECT_THAT(*Demo().EncodeText(text), testing::Contains(im_end));
  text.parse_special_tokens = false;
  EXPECT_THAT(*Demo().EncodeText(text), testing::Not(testing::Contains(im_end)));
}

TEST_F(PromptEncoderTest, RefusalsNameTheField) {
  v1::GenerateRequest request;
  EXPECT_EQ(FieldOf(EncodeError(request)), "prompt");
  request.mutable_text();
  EXPECT_EQ(FieldOf(EncodeError(request)), "text");
  EXPECT_THAT(std::string(EncodeError(request).message()), HasSubstr("is empty"));
  request.mutable_messages();
  EXPECT_EQ(FieldOf(EncodeError(request)), "messages");
  v1::Message* message = request.mutable_messages()->add_messages();
  EXPECT_EQ(FieldOf(EncodeError(request)), "messages[0].role");
  message->set_role("user");
  EXPECT_TRUE(EncodeError(request).ok()) << EncodeError(request);
  message->set_extra_json("[1]");
  EXPECT_EQ(FieldOf(EncodeError(request)), "messages[0].extra_json");
  message->clear_extra_json();
  request.mutable_messages()->set_tools_json("{}");
  EXPECT_EQ(FieldOf(EncodeError(request)), "messages.tools_json");
  request.mutable_messages()->clear_tools_json();
  request.mutable_messages()->set_template_kwargs_json("nonsense");
  EXPECT_EQ(FieldOf(EncodeError(request)), "messages.template_kwargs_json");
}

TEST_F(PromptEncoderTest, TokensAndBack) {
  TextPrompt text;
  text.text = "two plus three";
  const std::vector<TokenId> ids = TokenizeText(Demo(), text)->ids;
  EXPECT_EQ(SpellTokens(Demo(), ids).size(), ids.size());
  ModelFacts model;
  model.vocab_size = 2048;
  const std::vector<uint32_t> sent(ids.begin(), ids.end());
  EXPECT_EQ(*Detokenize(Demo(), model, sent, /*skip_special_tokens=*/true), text.text);
  EXPECT_EQ(FieldOf(Detokenize(Demo(), model, {2048}, true).status()), "ids");
  EXPECT_THAT(TokenizeMessages(Demo(), UserSays("hello"))->rendered, HasSubstr("hello"));
  EXPECT_EQ(TokenizeText(Demo(), text)->rendered, "");
}

TEST_F(PromptEncoderTest, WithoutATemplateMessagesAreRefused) {
  const PromptEncoder encoder(Demo().tokenizer(), std::nullopt);
  const absl::Status status = encoder.Render(UserSays("a")).status();
  EXPECT_EQ(FieldOf(status), "messages");
  EXPECT_THAT(std::string(status.message()), HasSubstr("no chat template"));
  EXPECT_FALSE(encoder.has_chat_template());
}

TEST_F(PromptEncoderTest, AGivenTemplateReplacesTheModels) {
  absl::StatusOr<ChatTemplate> given =
      ChatTemplate::Compile("{% for message in messages %}<{{ message.content }}>{% endfor %}");
  ASSERT_TRUE(given.ok()) << given.status();
  const auto encoder =
      PromptEncoder::Load("configs/demo", ChatTemplateSet(*std::move(given), std::nullopt));
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  EXPECT_EQ((*encoder)->Render(UserSays("a"))->text(), "<a>");
}

}  // namespace
}  // namespace quire
