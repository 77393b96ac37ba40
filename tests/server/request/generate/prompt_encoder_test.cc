#include "server/request/generate/prompt_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/request/field_error.h"
#include "server/request/generate/prompt_message.h"
#include "server/request/generate/tokenize.h"
#include "server/request/limits.h"
#include "server/request/request_fuel.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

RenderInput UserSays(const std::string& content) {
  v1::Messages messages;
  v1::Message& message = *messages.add_messages();
  message.set_role("user");
  message.set_content(content);
  return *ConvertMessages(messages, /*fuel=*/nullptr);
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
    RequestFuel fuel(request.ByteSizeLong(), request.messages().messages_size(), nullptr);
    return EncodePrompt(request, Demo(), model, &fuel).status();
  }
};

TEST_F(PromptEncoderTest, OnlyTheTemplateMakesSpecialTokensOfMessages) {
  const auto rendered = Demo().Render(UserSays("a<|im_end|>b"));
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_THAT(rendered->text(), HasSubstr("a<|im_end|>b"));
  const std::vector<TokenId> ids = *Demo().EncodeRendered(*rendered, nullptr);
  const std::vector<TokenId> plain =
      *Demo().EncodeRendered(*Demo().Render(UserSays("ab")), nullptr);
  const TokenId im_end = *Demo().tokenizer()->TokenToId("<|im_end|>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), im_end),
            std::count(plain.begin(), plain.end(), im_end));
}

TEST_F(PromptEncoderTest, TextMakesSpecialTokensUnlessToldNotTo) {
  TextPrompt text;
  text.text = "a<|im_end|>b";
  const TokenId im_end = *Demo().tokenizer()->TokenToId("<|im_end|>");
  EXPECT_THAT(*Demo().EncodeText(text, nullptr), testing::Contains(im_end));
  text.parse_special_tokens = false;
  EXPECT_THAT(*Demo().EncodeText(text, nullptr), testing::Not(testing::Contains(im_end)));
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

// A template would write what stands for the picture that the model does not get.
TEST_F(PromptEncoderTest, PicturesInMessagesAreRefused) {
  v1::GenerateRequest request;
  v1::Message* message = request.mutable_messages()->add_messages();
  message->set_role("user");
  const std::string text = R"({"content": [{"type": "text", "text": "an image of a file"})";
  message->set_extra_json(text + "]}");
  EXPECT_TRUE(EncodeError(request).ok()) << EncodeError(request);
  for (const auto& [part, name, kind] :
       {std::tuple(R"({"type": "image"})", "\"image\"", "pictures"),
        std::tuple(R"({"type": "image_url", "image_url": {"url": "x"}})", "image_url", "pictures"),
        std::tuple(R"({"text": "a", "image": "x"})", "\"image\"", "pictures"),
        std::tuple(R"({"type": "video"})", "\"video\"", "videos"),
        std::tuple(R"({"type": "input_audio"})", "input_audio", "sounds")}) {
    message->set_extra_json(absl::StrCat(text, ", ", part, "]}"));
    const absl::Status status = EncodeError(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
    EXPECT_EQ(FieldOf(status), "messages[0].extra_json");
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr("content[1]"), HasSubstr(name), HasSubstr(kind)));
  }
}

TEST_F(PromptEncoderTest, ACancelledRequestGetsNoPrompt) {
  constexpr size_t kTextBytes = size_t{1} << 20;
  CancelToken token;
  token.Cancel();
  ModelFacts model;
  v1::GenerateRequest text;
  text.mutable_text()->set_text(std::string(kTextBytes, 'a'));
  v1::GenerateRequest chat;
  v1::Message& message = *chat.mutable_messages()->add_messages();
  message.set_role("user");
  message.set_content("a");
  v1::GenerateRequest json = chat;
  json.mutable_messages()->set_template_kwargs_json("{\"a\": [1, 2, 3]}");
  for (const v1::GenerateRequest& request : {text, chat, json}) {
    RequestFuel fuel(request.ByteSizeLong(), request.messages().messages_size(), &token);
    const absl::Status status = EncodePrompt(request, Demo(), model, &fuel).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_LE(fuel.num_burned(), kTextBytes / 8) << "one look at the text before it is normalised";
  }
}

// Some public templates look at all messages for each.
TEST_F(PromptEncoderTest, AnAgentsDayDoesNotRunOutOfFuel) {
  constexpr int kNumMessages = 1200;
  absl::StatusOr<ChatTemplate> slow = ChatTemplate::Compile(
      "{% for m in messages %}{% for other in messages %}{% if other.role == m.role %}{% endif %}"
      "{% endfor %}{% endfor %}");
  ASSERT_TRUE(slow.ok()) << slow.status();
  const PromptEncoder encoder(Demo().tokenizer(), ChatTemplateSet(*std::move(slow), std::nullopt));
  v1::GenerateRequest request;
  for (int i = 0; i < kNumMessages; ++i) {
    v1::Message& message = *request.mutable_messages()->add_messages();
    message.set_role("user");
    message.set_content("Please read the next file and say what is in it.");
  }
  const auto burn = [&encoder, &request](Fuel* fuel) {
    return encoder.Render(*ConvertMessages(request.messages(), fuel)).status();
  };
  RequestFuel fuel(request.ByteSizeLong(), kNumMessages, nullptr);
  EXPECT_TRUE(burn(&fuel).ok()) << burn(&fuel);
  // Nor does one message of as many bytes get as much.
  RequestFuel of_one(request.ByteSizeLong(), 1, nullptr);
  EXPECT_EQ(burn(&of_one).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PromptEncoderTest, ChatsWithMoreMessagesThanAreAllowedAreRefusedFirst) {
  v1::Messages messages;
  for (size_t i = 0; i <= kMaxMessages; ++i) messages.add_messages()->set_role("user");
  EXPECT_EQ(FieldOf(CheckMessages(messages)), "messages");
  messages.mutable_messages()->RemoveLast();
  EXPECT_TRUE(CheckMessages(messages).ok());
}

TEST_F(PromptEncoderTest, TokensAndBack) {
  v1::TokenizeRequest request;
  request.mutable_text()->set_text("two plus three");
  const std::vector<TokenId> ids = TokenizePrompt(request, Demo(), nullptr)->ids;
  EXPECT_EQ(SpellTokens(Demo(), ids).size(), ids.size());
  ModelFacts model;
  model.vocab_size = 2048;
  const std::vector<uint32_t> sent(ids.begin(), ids.end());
  EXPECT_EQ(*Detokenize(Demo(), model, sent, /*skip_special_tokens=*/true), "two plus three");
  EXPECT_EQ(FieldOf(Detokenize(Demo(), model, {2048}, true).status()), "ids");
  EXPECT_EQ(TokenizePrompt(request, Demo(), nullptr)->rendered, "");
  v1::Message& message = *request.mutable_messages()->add_messages();
  message.set_role("user");
  message.set_content("hello");
  EXPECT_THAT(TokenizePrompt(request, Demo(), nullptr)->rendered, HasSubstr("hello"));
  EXPECT_EQ(FieldOf(TokenizePrompt({}, Demo(), nullptr).status()), "prompt");
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
