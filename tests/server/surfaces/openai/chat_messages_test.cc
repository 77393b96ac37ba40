// A chat's messages, in every form that clients send, as the template is to see them.
#include "server/surfaces/openai/chat_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "server/request/field_error.h"
#include "server/request/generate/prompt.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/surfaces/openai/common_fields.h"
#include "server/surfaces/openai/dropped_fields.h"
#include "server/surfaces/openai/openai_request.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Filled {
  ChatPrompt chat;
  absl::Status status;
};

// Reads a request with one message that has these members.
Filled Fill(const std::string& members) {
  const absl::StatusOr<JsonTree> body =
      ParseBody(R"({"messages": [{"role": "user", )" + members + "}]}");
  EXPECT_TRUE(body.ok()) << body.status();
  FieldReader fields(*body);
  Filled filled;
  FillMessages(fields, &filled.chat);
  filled.status = fields.status();
  return filled;
}

JsonTree MessageOf(const std::string& members) {
  const Filled filled = Fill(members);
  EXPECT_TRUE(filled.status.ok()) << filled.status;
  return filled.chat.messages.at(0);
}

TEST(ChatMessagesTest, ContentKeepsItsForm) {
  const auto json_of = [](const std::string& members) { return ToJson(MessageOf(members)); };
  EXPECT_EQ(json_of(R"("content": "one")"), R"({"role": "user", "content": "one"})");
  EXPECT_EQ(json_of(R"("content": null)"), R"({"role": "user", "content": null})");
  EXPECT_EQ(json_of(R"("name": "x", "refusal": null)"), R"({"role": "user", "name": "x"})");
  EXPECT_EQ(json_of(R"("content": [])"), R"({"role": "user", "content": []})");
}

// The types of parts that vLLM takes. The text of all of them is there for code that needs it.
TEST(ChatMessagesTest, PartsAreOfTypeTextOrThinking) {
  const JsonTree message = MessageOf(
      R"("content": ["a", {"type": "text", "text": "b", "cache_control": {}},
                     {"type": "input_text", "text": "c"}, {"type": "output_text", "text": "d"},
                     {"type": "refusal", "refusal": "e"}, {"type": "thinking", "thinking": "f"},
                     {"type": "text", "text": null}])");
  EXPECT_EQ(TextOfContent(message), "a\nb\nc\nd\ne\nf");
  EXPECT_EQ(ToJson(*message.Find("content")),
            R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, )"
            R"({"type": "text", "text": "c"}, {"type": "text", "text": "d"}, )"
            R"({"type": "text", "text": "e"}, {"type": "thinking", "thinking": "f"}])");
}

// All the way from the body of a request.
TEST(ChatMessagesTest, ATemplateSeesWhatWasSent) {
  const auto render = [](const std::string& source, const std::string& members) {
    absl::StatusOr<ChatTemplate> chat_template = ChatTemplate::Compile(source);
    EXPECT_TRUE(chat_template.ok()) << chat_template.status();
    const auto encoder = PromptEncoder::Load(
        "configs/demo", ChatTemplateSet(*std::move(chat_template), std::nullopt));
    EXPECT_TRUE(encoder.ok()) << encoder.status();
    const Filled filled = Fill(members);
    EXPECT_TRUE(filled.status.ok()) << filled.status;
    return (*encoder)->Render(*ConvertChat(filled.chat, kChatNames, /*fuel=*/nullptr))->text();
  };
  const std::string parts =
      R"("content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])";
  const std::string walks =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}{% endfor %}";
  const std::string text = "{% for m in messages %}{{ m.role + ' ' + m.content }}{% endfor %}";
  EXPECT_EQ(render(walks, parts), "onetwo");
  EXPECT_EQ(render(text, parts), "user one\ntwo");
  EXPECT_EQ(render(text, R"("role": "developer", "content": "d")"), "system d");
  EXPECT_EQ(render("{% for m in messages %}{{ 'tool_calls' in m }}{% endfor %}",
                   R"("content": "a", "tool_calls": [])"),
            "False");
}

TEST(ChatMessagesTest, WhatIsNoTextIsNamed) {
  for (const auto& [part, type, kind] :
       {std::tuple(R"({"type": "image_url", "image_url": {"url": "x"}})", "image_url", "pictures"),
        std::tuple(R"({"type": "input_image", "image_url": "x"})", "input_image", "pictures"),
        std::tuple(R"({"type": "input_audio", "input_audio": {}})", "input_audio", "sounds"),
        std::tuple(R"({"type": "video_url", "video_url": {}})", "video_url", "videos"),
        std::tuple(R"({"type": "file", "file": {}})", "file", "files"),
        std::tuple(R"({"type": "poem", "text": "x"})", "poem", "text"),
        std::tuple(R"({"type": "text", "text": 5})", "text", "text")}) {
    const absl::Status status =
        Fill(std::string(R"("content": [{"type": "text", "text": "a"}, )") + part + "]").status;
    EXPECT_EQ(FieldOf(status), "messages[0].content[1]") << part;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(type), HasSubstr(kind)));
  }
  EXPECT_EQ(FieldOf(Fill(R"("content": [{"text": "a"}])").status), "messages[0].content[0]");
  EXPECT_EQ(FieldOf(Fill(R"("content": 5)").status), "messages[0].content");
  EXPECT_EQ(FieldOf(Fill(R"("content": {"type": "text"})").status), "messages[0].content");
}

absl::Status CommonError(const std::string& members) {
  const absl::StatusOr<JsonTree> body = ParseBody("{" + members + "}");
  FieldReader fields(*body);
  FillCommon(fields, "id-", "");
  return fields.status();
}

TEST(CommonFieldsTest, FieldsThatShapeTheAnswerAreBlamed) {
  for (const auto& [field, wrong] :
       {std::pair("grammar", "{}"), std::pair("json_schema", "\"x\""), std::pair("regex", "5"),
        std::pair("ebnf", "[]"), std::pair("structural_tag", "{\"a\": 1}")}) {
    const std::string name = "\"" + std::string(field) + "\": ";
    EXPECT_EQ(FieldOf(CommonError(name + wrong)), field);
    EXPECT_TRUE(CommonError(name + "null").ok());
    EXPECT_TRUE(CommonError(name + "\"\"").ok()) << "llama.cpp's page sends it so";
  }
}

TEST(CommonFieldsTest, NamesOfOtherServersGetOurs) {
  for (const auto& [theirs, ours] :
       {std::pair("repeat_penalty", "repetition_penalty"), std::pair("n_predict", "max_tokens")}) {
    const absl::Status status = CommonError("\"" + std::string(theirs) + "\": 1");
    EXPECT_EQ(FieldOf(status), theirs);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("did you mean " + std::string(ours) + "?"));
  }
}

TEST(DroppedFieldsTest, EachIsToldOnce) {
  DroppedFields dropped;
  const auto line_for = [&dropped](const std::string& body) {
    const absl::StatusOr<JsonTree> tree = ParseBody(body);
    FieldReader fields(*tree);
    fields.Int("top_k");
    return dropped.LineFor(fields);
  };
  EXPECT_EQ(line_for(R"({"top_k": 5, "user": "x", "off": null})"), "");
  EXPECT_THAT(line_for(R"({"top_k": 5, "frobnicate": 1, "a\nb": 2})"),
              AllOf(HasSubstr(R"("frobnicate", "a\nb")"), HasSubstr("without effect")));
  EXPECT_EQ(line_for(R"({"frobnicate": 1})"), "");
  EXPECT_EQ(line_for("{\"" + std::string(1000, 'x') + "\": 1}"), "");
  size_t num_lines = 0;
  for (size_t i = 0; i < 3 * DroppedFields::kMaxNames; ++i) {
    num_lines += line_for("{\"x" + std::to_string(i) + "\": 1}").empty() ? 0 : 1;
  }
  EXPECT_EQ(num_lines, DroppedFields::kMaxNames - 2);
}

}  // namespace
}  // namespace quire
