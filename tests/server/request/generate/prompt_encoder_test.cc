#include "server/request/generate/prompt_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/request/field_error.h"
#include "server/request/generate/prompt.h"
#include "server/request/generate/tokenize.h"
#include "server/request/limits.h"
#include "server/request/request_fuel.h"
#include "server/surfaces/grpc/request_messages.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

JsonTree MessageOf(const std::string& role, const std::string& content) {
  JsonTree message = NewObject();
  AddMember(&message, "role", TextTree(role));
  AddMember(&message, "content", TextTree(content));
  return message;
}

RenderInput UserSays(const std::string& content) {
  return *ConvertChat({.messages = {MessageOf("user", content)}}, kQuireNames, /*fuel=*/nullptr);
}

class PromptEncoderTest : public testing::Test {
 protected:
  static const PromptEncoder& Demo() {
    static const auto& loaded = *new auto(PromptEncoder::Load("configs/demo", std::nullopt));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return **loaded;
  }
  static absl::Status EncodeError(const v1::GenerateRequest& request) {
    const absl::StatusOr<Generation> asked = ToGeneration(request);
    return asked.ok() ? EncodeError(asked->prompt, nullptr) : asked.status();
  }
  static absl::Status EncodeError(const Prompt& prompt, const CancelToken* token) {
    ModelFacts model;
    model.vocab_size = 2048;
    model.max_model_len = 4096;
    GenerationJob job;
    job.names = &kQuireNames;
    RequestFuel fuel(NumBytes(prompt), NumMessages(prompt), token);
    const absl::Status status = EncodePrompt(prompt, job, Demo(), model, &fuel).status();
    if (absl::IsCancelled(status)) {
      EXPECT_LE(fuel.num_burned(), NumBytes(prompt) / 8 + 1000) << "before it is normalised";
    }
    return status;
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
  CancelToken token;
  token.Cancel();
  const ChatPrompt chat = {.messages = {MessageOf("user", "a")}};
  ChatPrompt with_variables = chat;
  with_variables.template_kwargs = NewObject();
  for (int i = 0; i < 10000; ++i) {
    AddMember(&with_variables.template_kwargs, absl::StrCat("v", i), TextTree("a"));
  }
  for (const Prompt& prompt : {Prompt(TextPrompt{.text = std::string(size_t{1} << 20, 'a')}),
                               Prompt(chat), Prompt(with_variables)}) {
    const absl::Status status = EncodeError(prompt, &token);
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_EQ(FieldOf(status), "") << "no field is to blame";
  }
}

// Some public templates look at all messages for each.
TEST_F(PromptEncoderTest, AnAgentsDayDoesNotRunOutOfFuel) {
  constexpr size_t kNumMessages = 1200;
  absl::StatusOr<ChatTemplate> slow = ChatTemplate::Compile(
      "{% for m in messages %}{% for other in messages %}{% if other.role == m.role %}{% endif %}"
      "{% endfor %}{% endfor %}");
  ASSERT_TRUE(slow.ok()) << slow.status();
  const PromptEncoder encoder(Demo().tokenizer(), ChatTemplateSet(*std::move(slow), std::nullopt));
  const ChatPrompt chat = {
      .messages = std::vector<JsonTree>(
          kNumMessages, MessageOf("user", "Please read the next file and say what is in it."))};
  const auto burn = [&encoder, &chat](Fuel* fuel) {
    return encoder.Render(*ConvertChat(chat, kQuireNames, fuel)).status();
  };
  RequestFuel fuel(NumBytes(chat), kNumMessages, nullptr);
  EXPECT_TRUE(burn(&fuel).ok()) << burn(&fuel);
  // Nor does one message of as many bytes get as much.
  RequestFuel of_one(NumBytes(chat), 1, nullptr);
  EXPECT_EQ(burn(&of_one).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PromptEncoderTest, ChatsWithMoreMessagesThanAreAllowedAreRefusedFirst) {
  ChatPrompt chat = {.messages = std::vector<JsonTree>(kMaxMessages + 1, MessageOf("user", "a"))};
  EXPECT_EQ(FieldOf(CheckMessages(chat, kQuireNames)), "messages");
  chat.messages.pop_back();
  EXPECT_TRUE(CheckMessages(chat, kQuireNames).ok());
}

// A list of ids in a chat is a list of values to the template, whose number has a limit.
TEST_F(PromptEncoderTest, ManyIdsAreManyValuesOfAChat) {
  ChatPrompt chat = {.messages = {MessageOf("user", "a")}};
  chat.template_kwargs = NewObject();
  AddMember(&chat.template_kwargs, "ids",
            {.kind = JsonTree::Kind::kIds, .ids = std::vector<uint32_t>(1000, 7)});
  EXPECT_TRUE(EncodeError(Prompt(chat), nullptr).ok());
  chat.template_kwargs.items[0].ids.resize(kMaxJsonValues);
  const absl::Status status = EncodeError(Prompt(chat), nullptr);
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 65536 values"));
  EXPECT_EQ(FieldOf(status), "messages.template_kwargs_json");
}

TEST_F(PromptEncoderTest, TokensAndBack) {
  const auto tokenize = [](const Prompt& prompt) {
    return TokenizePrompt(prompt, kQuireNames, Demo(), nullptr);
  };
  const auto text = tokenize(TextPrompt{.text = "two plus three"});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(SpellTokens(Demo(), text->ids).size(), text->ids.size());
  EXPECT_EQ(text->rendered, "");
  ModelFacts model;
  model.vocab_size = 2048;
  const std::vector<uint32_t> sent(text->ids.begin(), text->ids.end());
  EXPECT_EQ(*Detokenize("ids", sent, Demo(), model, /*skip_special_tokens=*/true),
            "two plus three");
  EXPECT_EQ(FieldOf(Detokenize("ids", {2048}, Demo(), model, true).status()), "ids");
  EXPECT_THAT(tokenize(ChatPrompt{.messages = {MessageOf("user", "hello")}})->rendered,
              HasSubstr("hello"));
  EXPECT_EQ(FieldOf(tokenize({}).status()), "prompt");
}

TEST_F(PromptEncoderTest, WithoutATemplateMessagesAreRefused) {
  const PromptEncoder encoder(Demo().tokenizer(), std::nullopt);
  const ChatPrompt chat = {.messages = {MessageOf("user", "a")}};
  const absl::Status status = RenderChat(chat, kQuireNames, encoder, /*fuel=*/nullptr).status();
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
