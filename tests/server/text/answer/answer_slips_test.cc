// Calls as sloppy models write them: whatever the slip, what is given out as a call has arguments
// that are JSON, and the same ones wherever the answer is cut into parts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "tests/server/text/answer/answer_samples.h"

namespace quire {
namespace {

struct Answer {
  const char* parser;
  std::string text;
  std::vector<std::string> arguments;  // without slips
};

std::vector<Answer> Answers() {
  const std::vector<std::string> json = {
      R"({"city": "S\u00e3o \"P\" {x}", "days": [1.5, true, null]})", "{}"};
  const std::string weather = "{\"name\": \"get_weather\", \"arguments\": " + json[0] + "}";
  const std::string now = R"({"name": "now", "arguments": {}})";
  return {
      {"hermes",
       "Let me see.\n\n<tool_call>\n" + weather + "\n</tool_call>\n<tool_call>\n" + now +
           "\n</tool_call>",
       json},
      {"llama3_json", "I look.\n" + weather + "; " + now, json},
      {"llama3_json", "<|python_tag|>" + weather + "\n" + now, json},
      {"mistral", "[TOOL_CALLS] [" + weather + ", " + now + "]", json},
      {"mistral", "Well.[TOOL_CALLS]get_weather[ARGS]" + json[0] + "[TOOL_CALLS]now[ARGS]{}", json},
      {"qwen3_coder",
       "I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome \"x\"\n</parameter>\n"
       "<parameter=count>\n3\n</parameter>\n<parameter=days>\n{\"a\": [true, null]}\n</parameter>\n"
       "</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
       {R"({"city": "Rome \"x\"", "count": 3, "days": {"a": [true, null]}})", "{}"}},
      {"gemma4",
       "I look.<|tool_call>call:get_weather{city:<|\"|>Rome \"P\" {x}<|\"|>,days:[1.5,true,null,"
       "{unit:<|\"|>C<|\"|>}]}<tool_call|><|tool_call>call:now{}<tool_call|>",
       {R"({"city":"Rome \"P\" {x}","days":[1.5,true,null,{"unit":"C"}]})", "{}"}},
      {"gpt_oss",
       "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.get_weather <|constrain|>json<|message|>" +
           json[0] +
           "<|call|><|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}"
           "<|call|>",
       json},
  };
}

// Parts of an answer, and the text that a model may write instead.
const std::vector<std::pair<std::string, std::vector<std::string>>>& Slips() {
  static const auto& slips = *new std::vector<std::pair<std::string, std::vector<std::string>>>{
      {"\"", {"'", "", "\"\"", "\\\"", "''", "`"}},
      {"true", {"True", "TRUE", "yes", "tru"}},
      {"null", {"None", "undefined", "NaN", ""}},
      {"1.5", {"+1.5", "01.5", "1.", ".5", "1,5", "0x1F", "1.5 days", "-", "Infinity"}},
      {"3", {"3.0", "three", "\"3\"", "3,", "[3", "'3'"}},
      {"{", {"", "{{", "[", "("}},
      {"}", {"", "}}", "]", ",}", ";", "\n"}},
      {"[", {"", "(", "[["}},
      {"]", {"", ")", "]]", "}"}},
      {",", {"", ",,", ";", "\n", ", // more\n"}},
      {":", {"", "=", " :", "=>"}},
      {"\\", {"", "\\\\", "\\x", "\\u12"}},
      {" ", {"\n", "", "\t"}},
      {"</parameter>", {"", "</param>", "</parameter", "</parameters>", "<parameter>"}},
      {"<parameter=", {"<parameter ", "<param=", "<parameter name="}},
      {"</function>", {"", "</func>", "</function=get_weather>", "<function>"}},
      {"</tool_call>",
       {"", "</tool_cal>", "<tool_call>", "</tool_call", "</tool_call></tool_call>"}},
      {"<tool_call>",
       {"", "<tool_call><tool_call>", "<tool_call>```json\n", "```xml\n<tool_call>"}},
      {"<|\"|>", {"", "\"", "'", "<|\">", "<|\"|><|\"|>"}},
      {"<|tool_call>", {"", "<|tool_call><|tool_call>", "<|tool_call>\n", "<tool_call|>"}},
      {"<tool_call|>", {"", "<|tool_call>", "<tool_call", "<tool_call|><tool_call|>"}},
      {"<|channel|>", {"", "<|channel|><|channel|>", "<|channel", "<|channel|> "}},
      {"<|message|>", {"", "<|message|><|message|>", "<|constrain|>", " "}},
      {"<|end|>", {"", "<|end|>\n", "<|return|>", "<|call|>", "<|end|>x"}},
      {"<|call|>", {"", "<|end|>", "<|call", "<|call|>now"}},
      {"<|start|>", {"", "<|start", "<|start|><|start|>"}},
      {"assistant", {"", "user", "assistant:", " assistant "}},
      {"to=", {"", "to= ", "to", "to=to="}},
      {"call:", {"", "call: ", "call", "call:call:"}},
      {"[TOOL_CALLS]", {"", "[TOOL_CALLS]\n", "[TOOL_CALLS][TOOL_CALLS]"}},
      {"[ARGS]", {"", "[ARG]", "[CALL_ID]x[ARGS]"}},
      {"get_weather", {"get weather", "functions.get_weather", "", "no_such_function"}},
      {"name", {"function", "tool", "Name"}},
      {"arguments", {"parameters", "args", "arguments\": \"{}\", \"x"}},
      {"\n", {"", "\n\n", "\r\n", " and then\n", "\n```\n"}},
  };
  return slips;
}

class Sloppy {
 public:
  explicit Sloppy(uint32_t seed) : random_(seed) {}

  std::string Write(std::string text) {
    const size_t num_slips = 1 + Below(4);
    for (size_t i = 0; i < num_slips; ++i) Slip(&text);
    if (Below(4) == 0) text.resize(Below(text.size() + 1));  // max_tokens
    return text;
  }

  std::vector<size_t> Cuts(size_t size) {
    std::vector<size_t> cuts;
    const size_t one_in = 1 + Below(6);
    for (size_t cut = 1; cut < size; ++cut) {
      if (Below(one_in) == 0) cuts.push_back(cut);
    }
    return cuts;
  }

 private:
  size_t Below(size_t limit) { return random_() % limit; }

  void Slip(std::string* text) {
    const auto& [right, wrong] = Slips()[Below(Slips().size())];
    const size_t begin = text->find(right, Below(text->size() + 1));
    if (begin != std::string::npos) {
      text->replace(begin, right.size(), wrong[Below(wrong.size())]);
    } else if (!text->empty() && Below(4) == 0) {
      text->erase(Below(text->size()), 1 + Below(8));
    }
  }

  std::mt19937 random_;
};

std::vector<AnswerEvent> Parse(const char* parser, const std::string& text,
                               const std::vector<size_t>& cuts) {
  const AnswerOptions options = OptionsOf({.parser = parser});
  AnswerParser reader(options, /*in_reasoning=*/false);
  std::vector<AnswerEvent> all;
  size_t begin = 0;
  const auto add = [&all](std::vector<AnswerEvent> events) {
    all.insert(all.end(), events.begin(), events.end());
  };
  for (const size_t cut : cuts) {
    add(reader.Append(std::string_view(text).substr(begin, cut - begin)));
    begin = cut;
  }
  add(reader.Append(std::string_view(text).substr(begin)));
  add(reader.Finish());
  return all;
}

TEST(AnswerSlipsTest, WithoutSlipsAnswersAreAsTheyWereMeant) {
  for (const Answer& answer : Answers()) {
    EXPECT_EQ(ArgumentsOf(Parse(answer.parser, answer.text, {})), answer.arguments) << answer.text;
  }
}

TEST(AnswerSlipsTest, CallsHaveArgumentsThatAreJson) {
  constexpr uint32_t kNumAnswers = 20'000;
  const std::vector<Answer> answers = Answers();
  size_t num_calls = 0;
  for (uint32_t seed = 0; seed < kNumAnswers; ++seed) {
    Sloppy sloppy(seed);
    const Answer& answer = answers[seed % answers.size()];
    const std::string text = sloppy.Write(answer.text);
    const std::vector<AnswerEvent> whole = Parse(answer.parser, text, {});
    const std::vector<AnswerEvent> parts = Parse(answer.parser, text, sloppy.Cuts(text.size()));
    ASSERT_EQ(Meaning(parts), Meaning(whole)) << "seed " << seed << ": " << text;
    for (const std::string& arguments : ArgumentsOf(whole)) {
      ++num_calls;
      ASSERT_TRUE(nlohmann::json::accept(arguments))
          << "seed " << seed << ": " << answer.parser << " " << text << "\n"
          << arguments;
    }
  }
  EXPECT_GT(num_calls, kNumAnswers / 2);  // without slips there were 2 in each
}

// An answer may be cut anywhere, by max_tokens or a stop string.
TEST(AnswerSlipsTest, CallsThatAreCutOffEndAsJson) {
  for (const Answer& answer : Answers()) {
    for (size_t size = 0; size <= answer.text.size(); ++size) {
      const std::string text = answer.text.substr(0, size);
      for (const std::string& arguments : ArgumentsOf(Parse(answer.parser, text, {}))) {
        ASSERT_TRUE(nlohmann::json::accept(arguments)) << answer.parser << " " << text << "\n"
                                                       << arguments;
      }
    }
  }
}

// Whatever comes after a call has begun.
TEST(AnswerSlipsTest, NoiseEndsAsJson) {
  constexpr std::string_view kNoise = "{}[]()\"',:;\\ \nu1eE.-+<>/=tfnTNa`_";
  const std::vector<std::pair<const char*, std::string>> beginnings = {
      {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": "},
      {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": "},
      {"llama3_json", "{\"name\": \"now\", \"parameters\": {"},
      {"mistral", "[TOOL_CALLS]now[ARGS]{"},
      {"qwen3_coder", "<function=get_weather><parameter=days>"},
      {"gpt_oss", "<|channel|>commentary to=functions.now<|message|>{"},
      {"gpt_oss", "<|channel|>commentary to=functions.now "},
      {"gemma4", "<|tool_call>call:get_weather{"},
      {"gemma4", "<|tool_call>call:get_weather{a:<|\"|>"}};
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    auto [parser, text] = beginnings[random() % beginnings.size()];
    for (size_t i = random() % 40; i > 0; --i) text.push_back(kNoise[random() % kNoise.size()]);
    const std::vector<AnswerEvent> whole = Parse(parser, text, {});
    for (const std::string& arguments : ArgumentsOf(whole)) {
      ASSERT_TRUE(nlohmann::json::accept(arguments)) << parser << " " << text << "\n" << arguments;
    }
    std::vector<size_t> everywhere;
    for (size_t cut = 1; cut < text.size(); ++cut) everywhere.push_back(cut);
    ASSERT_EQ(Meaning(Parse(parser, text, everywhere)), Meaning(whole)) << text;
  }
}

}  // namespace
}  // namespace quire
