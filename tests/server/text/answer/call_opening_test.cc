#include "server/text/answer/call_opening.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/text/answer/answer_parser.h"

namespace quire {
namespace {

constexpr char kListed[] = "{{- \"[TOOL_CALLS] [\" }}";
constexpr char kTight[] = "{{- \"[TOOL_CALLS][\" }}";
constexpr char kNamed[] = "[TOOL_CALLS] [ARGS]";
constexpr char kNumbered[] = "[TOOL_CALLS] [CALL_ID] [ARGS]";

struct Case {
  ToolFormat format;
  const char* chat_template;
  const char* function;
  const char* opening;
  const char* rest;  // what a model goes on with
};

constexpr Case kCases[] = {
    {ToolFormat::kHermes, "", "f",
     "<tool_call>\n{\"name\": \"f\", \"arguments\":", " {\"a\": 1}}\n</tool_call>"},
    {ToolFormat::kHermes, "", "",
     "<tool_call>\n{\"name\":", " \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"},
    {ToolFormat::kLlama3Json, "", "f", "{\"name\": \"f\", \"parameters\":", " {\"a\": 1}}"},
    {ToolFormat::kLlama3Json, "", "", "{\"name\":", " \"f\", \"parameters\": {\"a\": 1}}"},
    {ToolFormat::kMistral, kListed, "f",
     "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\":", " {\"a\": 1}}]"},
    {ToolFormat::kMistral, kTight, "f",
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\":", " {\"a\": 1}}]"},
    {ToolFormat::kMistral, kListed, "",
     "[TOOL_CALLS] [{\"name\":", " \"f\", \"arguments\": {\"a\": 1}}]"},
    {ToolFormat::kMistral, kNamed, "f", "[TOOL_CALLS]f[ARGS]", "{\"a\": 1}"},
    {ToolFormat::kMistral, kNamed, "", "[TOOL_CALLS]", "f[ARGS]{\"a\": 1}"},
    {ToolFormat::kMistral, kNumbered, "f", "[TOOL_CALLS]f[CALL_ID]", "x1[ARGS]{\"a\": 1}"},
    {ToolFormat::kGemma4, "", "f", "<|tool_call>call:f{", "a:1}<tool_call|>"},
    {ToolFormat::kGemma4, "", "", "<|tool_call>call:", "f{a:1}<tool_call|>"},
    {ToolFormat::kHarmony, "", "f",
     "<|channel|>commentary to=functions.f <|constrain|>json<|message|>", "{\"a\": 1}<|call|>"},
    {ToolFormat::kHarmony, "", "", "<|channel|>commentary to=functions",
     ".f <|constrain|>json<|message|>{\"a\": 1}<|call|>"},
    {ToolFormat::kQwen3Coder, "", "f", "<tool_call>\n<function=f>\n",
     "<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"},
    {ToolFormat::kQwen3Coder, "", "",
     "<tool_call>\n<function=", "f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"},
};

// The name and the arguments of the one call; else what the events are.
std::string CallOf(const std::vector<AnswerEvent>& events) {
  std::string call;
  for (const AnswerEvent& event : events) {
    call += event.kind == AnswerEvent::Kind::kCall        ? "call " + event.text + " "
            : event.kind == AnswerEvent::Kind::kArguments ? event.text
                                                          : "text " + event.text;
  }
  return call;
}

TEST(CallOpeningTest, AnAnswerGoesOnWithTheCall) {
  for (const Case& one : kCases) {
    AnswerOptions options;
    options.tools = one.format;
    options.functions["f"];
    options.opening = CallOpening(one.format, one.chat_template).Of(one.function);
    EXPECT_EQ(options.opening, one.opening);
    AnswerParser parser(options, /*in_reasoning=*/false);
    std::vector<AnswerEvent> events;
    for (const char c : std::string(one.rest)) {
      for (AnswerEvent& event : parser.Append(std::string(1, c))) {
        events.push_back(std::move(event));
      }
    }
    for (AnswerEvent& event : parser.Finish()) events.push_back(std::move(event));
    const char* const arguments = one.format == ToolFormat::kQwen3Coder ? R"({"a": "1"})"
                                  : one.format == ToolFormat::kGemma4   ? R"({"a":1})"
                                                                        : R"({"a": 1})";
    EXPECT_EQ(CallOf(events), absl::StrCat("call f ", arguments)) << one.opening;
  }
}

TEST(CallOpeningTest, ACallThatIsForcedComesBeforeReasoning) {
  AnswerOptions options;
  options.reasoning = {"<think>", "</think>"};
  options.tools = ToolFormat::kHermes;
  options.opening = CallOpening(options.tools, "").Of("f");
  AnswerParser parser(options, /*in_reasoning=*/false);
  EXPECT_EQ(CallOf(parser.Append(" {\"a\": \"<think>\"}}")), "call f {\"a\": \"<think>\"}");
}

TEST(CallOpeningTest, NamesThatAreMarksOfNoFormat) {
  for (const char* name : {"f", "get_weather", "a-b.c9"}) {
    EXPECT_TRUE(CallOpening::CanName(name)) << name;
  }
  for (const char* name : {"<|im_end|>", "a b", "a\"b", "[ARGS]", "a>", "a\n", "ä"}) {
    EXPECT_FALSE(CallOpening::CanName(name)) << name;
  }
}

}  // namespace
}  // namespace quire
