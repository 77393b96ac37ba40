// ChatTemplate as the server uses it: variables, errors, continue_final_message, concurrent
// renders.
#include "server/text/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/server/text/chat/chat_test_helpers.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr std::string_view kChat =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content|trim }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

RenderInput Chat(std::vector<std::pair<std::string, std::string>> turns) {
  Json messages = Json::array();
  for (auto& [role, content] : turns) messages.push_back({{"role", role}, {"content", content}});
  RenderInput input;
  input.messages = FromJson(messages.dump());
  return input;
}

TEST(ChatTemplateTest, RendersMessagesAndTheGenerationPrompt) {
  RenderInput input = Chat({{"user", " Hi "}, {"assistant", "Yes?"}});
  EXPECT_EQ(Rendered(kChat, input), "<|user|>Hi<|end|>\n<|assistant|>Yes?<|end|>\n");
  input.add_generation_prompt = true;
  EXPECT_EQ(Rendered(kChat, input), "<|user|>Hi<|end|>\n<|assistant|>Yes?<|end|>\n<|assistant|>");
}

TEST(ChatTemplateTest, SetsTheVariablesOfTransformers) {
  RenderInput input;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  EXPECT_EQ(
      Rendered(
          "{{ bos_token }}{{ eos_token }}{{ tools is none }}{{ documents is none }}{{ messages }}"
          "{{ add_generation_prompt }}{{ continue_final_message }}",
          input),
      "<s></s>TrueTrue[]FalseFalse");
  input.tools = FromJson(R"([{"name": "t"}])");
  input.documents = FromJson(R"(["d"])");
  EXPECT_EQ(Rendered("{{ tools[0].name }}{{ documents[0] }}", input), "td");
}

TEST(ChatTemplateTest, KwargsAreVariablesButCannotReplaceTheServers) {
  EXPECT_EQ(Rendered("{{ enable_thinking }}{{ effort }}",
                     With(R"({"enable_thinking": false, "effort": "high"})")),
            "Falsehigh");
  for (const char* name :
       {"messages", "tools", "bos_token", "raise_exception", "add_generation_prompt"}) {
    EXPECT_THAT(Rendered("x", With("{\"" + std::string(name) + "\": 1}")),
                HasSubstr("may not set '" + std::string(name)));
  }
  RenderInput input;
  input.kwargs = FromJson("[]");
  EXPECT_THAT(Rendered("x", input), HasSubstr("must be a JSON object"));
}

TEST(ChatTemplateTest, JsonNumbersKeepTheirValue) {
  EXPECT_EQ(Rendered("{{ v|tojson }}{{ v }}",
                     With(R"({"v": [18446744073709551615, -9223372036854775808, 1.0, 1e-7]})")),
            "[18446744073709551615, -9223372036854775808, 1.0, 1e-07][18446744073709551615, "
            "-9223372036854775808, 1.0, 1e-07]");
}

TEST(ChatTemplateTest, ErrorsNameTheLine) {
  EXPECT_EQ(Rendered("a\n\n{% if x %}"),
            "error: chat template, line 3: expected {% elif %} or {% else %} or {% endif %}, got "
            "the end of the template");
  EXPECT_EQ(Rendered("a\n{{ messages[0].content.x }}\n"),
            "error: chat template, line 2: a list has no such item");
  EXPECT_EQ(Rendered("{% for m in\n missing.x %}\n{% endfor %}"),
            "error: chat template, line 2: 'missing' is undefined");
  EXPECT_EQ(Rendered("{{ 'a'|indent('x', y=1) }}"),
            "error: chat template, line 1: filter 'indent': has no argument 'y'");
  EXPECT_EQ(RenderSegments("{{ x.y }}").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, RaiseExceptionGivesItsMessageAlone) {
  const auto result =
      RenderSegments("text {{ raise_exception('Roles must alternate: ' + 'user') }}");
  EXPECT_EQ(result.status(), absl::InvalidArgumentError("Roles must alternate: user"));
}

TEST(ChatTemplateTest, StrftimeNowUsesTheGivenTime) {
  RenderInput input;
  input.now = 1'000'000'000;  // 2001-09-09 01:46:40 UTC
  EXPECT_THAT(Rendered("{{ strftime_now('%Y-%m') }}", input), "2001-09");
  EXPECT_THAT(Rendered("{{ strftime_now('%999999999d') }}", input), "");
  EXPECT_THAT(Rendered("{{ strftime_now('" + std::string(300, 'x') + "') }}", input),
              HasSubstr("too long"));
}

TEST(ContinueFinalMessageTest, EndsWithTheLastMessage) {
  RenderInput input = Chat({{"user", "Count"}, {"assistant", "1, 2,"}});
  input.continue_final_message = true;
  EXPECT_EQ(Rendered(kChat, input), "<|user|>Count<|end|>\n<|assistant|>1, 2,");
}

TEST(ContinueFinalMessageTest, WhiteSpaceAtTheEndStaysIfTheTemplateKeepsIt) {
  RenderInput input = Chat({{"user", "Count"}, {"assistant", " 1, "}});
  input.continue_final_message = true;
  EXPECT_EQ(Rendered(kChat, input), "<|user|>Count<|end|>\n<|assistant|>1,");
  EXPECT_EQ(Rendered("{% for m in messages %}[{{ m.content }}]{% endfor %}", input),
            "[Count][ 1, ");
}

TEST(ContinueFinalMessageTest, WhatTheTemplateWritesAfterItMaySayTheSame) {
  for (const auto& [content, expected] :
       {std::pair("e", "<|assistant|>e"), std::pair("", "<|assistant|>"),
        std::pair("|", "<|assistant|>|"), std::pair("end", "<|assistant|>end"),
        std::pair("Count", "<|assistant|>Count")}) {
    RenderInput input = Chat({{"user", "Count"}, {"assistant", content}});
    input.continue_final_message = true;
    EXPECT_EQ(Rendered(kChat, input), std::string("<|user|>Count<|end|>\n") + expected);
  }
}

TEST(ContinueFinalMessageTest, TakesTheLastTextPart) {
  RenderInput input;
  input.continue_final_message = true;
  input.messages =
      FromJson(R"([{"role": "a", "content": [{"text": "one"}, {"text": "two"}, {"image": 1}]}])");
  EXPECT_EQ(Rendered("{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}", input),
            "<one><two");
}

TEST(ContinueFinalMessageTest, SaysWhyItCannot) {
  RenderInput input = Chat({{"user", "a"}});
  input.continue_final_message = true;
  EXPECT_THAT(Rendered("nothing", input), HasSubstr("does not show the last message"));
  input.messages = FromJson(R"([{"role": "user", "content": "ab"}])");
  EXPECT_THAT(Rendered("{{ messages[0].content[1:] }}", input),
              HasSubstr("does not show the last message"));
  input.messages = FromJson("[]");
  EXPECT_THAT(Rendered("x", input), HasSubstr("needs a last message with text content"));
  input.messages = FromJson(R"([{"role": "user", "content": null}])");
  EXPECT_THAT(Rendered("x", input), HasSubstr("needs a last message with text content"));
}

TEST(ChatTemplateTest, ManyThreadsRenderOneTemplate) {
  const auto compiled = ChatTemplate::Compile(kChat);
  ASSERT_TRUE(compiled.ok());
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round)
        results[i] = TextOf(compiled->Render(Chat({{"user", std::to_string(i)}})));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i], "<|user|>" + std::to_string(i) + "<|end|>\n");
}

}  // namespace
}  // namespace quire
