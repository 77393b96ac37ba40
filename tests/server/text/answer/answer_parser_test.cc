#include "server/text/answer/answer_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/server/text/answer/answer_samples.h"

namespace quire {
namespace {

// The text in parts that end at `cuts`.
std::vector<AnswerEvent> Parse(const AnswerSample& sample, const AnswerOptions& options,
                               const std::vector<size_t>& cuts) {
  AnswerParser parser(options, sample.in_reasoning);
  std::vector<AnswerEvent> all;
  const auto add = [&all](std::vector<AnswerEvent> events) {
    all.insert(all.end(), events.begin(), events.end());
  };
  size_t begin = 0;
  for (const size_t cut : cuts) {
    add(parser.Append(std::string_view(sample.text).substr(begin, cut - begin)));
    begin = cut;
  }
  add(parser.Append(std::string_view(sample.text).substr(begin)));
  add(parser.Finish());
  return all;
}

class SampleTest : public testing::TestWithParam<AnswerSample> {};

TEST_P(SampleTest, IsTakenApart) {
  const AnswerOptions options = OptionsOf(GetParam());
  EXPECT_EQ(Meaning(Parse(GetParam(), options, {})), GetParam().meaning);
}

TEST_P(SampleTest, IsTheSameWhereverItIsCut) {
  const AnswerOptions options = OptionsOf(GetParam());
  const size_t size = GetParam().text.size();
  std::vector<size_t> everywhere;
  for (size_t cut = 1; cut < size; ++cut) {
    EXPECT_EQ(Meaning(Parse(GetParam(), options, {cut})), GetParam().meaning) << "cut at " << cut;
    everywhere.push_back(cut);
  }
  EXPECT_EQ(Meaning(Parse(GetParam(), options, everywhere)), GetParam().meaning);
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    std::vector<size_t> cuts;
    for (size_t cut = 1; cut < size; ++cut) {
      if (random() % 4 == 0) cuts.push_back(cut);
    }
    EXPECT_EQ(Meaning(Parse(GetParam(), options, cuts)), GetParam().meaning);
  }
}

INSTANTIATE_TEST_SUITE_P(Samples, SampleTest, testing::ValuesIn(AnswerSamples()));

// The text that a client has after each part. Only text that may belong to a tag waits.
TEST(AnswerParserTest, WaitsForTagsOnly) {
  const AnswerOptions options = OptionsOf({.parser = "hermes", .reasoning = "qwen3"});
  AnswerParser parser(options, /*in_reasoning=*/false);
  EXPECT_EQ(Meaning(parser.Append("<thi")), "");
  EXPECT_EQ(Meaning(parser.Append("nk>Well")), "R(Well)");
  EXPECT_EQ(Meaning(parser.Append(", a </b")), "R(, a </b)");
  EXPECT_EQ(Meaning(parser.Append(" </th")), "");
  EXPECT_EQ(Meaning(parser.Append("ink>Yes <t")), "C(Yes)");
  EXPECT_EQ(Meaning(parser.Append("o> no")), "C( <to> no)");
  EXPECT_EQ(Meaning(parser.Append(" <tool_call>{\"name\": \"now\",")), "");
  EXPECT_EQ(Meaning(parser.Append(" \"arguments\":")), "");
  EXPECT_EQ(Meaning(parser.Append(" {\"a")), "F(now)A({)");
  EXPECT_EQ(Meaning(parser.Append("\": \"x")), "A(\"a\": \"x)");
  EXPECT_EQ(Meaning(parser.Append("y\"}}")), "A(y\"})");
  EXPECT_EQ(Meaning(parser.Append("</tool_call>")), "");
  EXPECT_EQ(Meaning(parser.Finish()), "");
}

TEST(AnswerParserTest, ValuesOfParametersStream) {
  const AnswerOptions options = OptionsOf({.parser = "qwen3_coder"});
  AnswerParser parser(options, /*in_reasoning=*/false);
  EXPECT_EQ(Meaning(parser.Append("<tool_call><function=f>")), "F(f)A({)");
  EXPECT_EQ(Meaning(parser.Append("<parameter=a>\none\ntw")), "A(\"a\": \"one\\ntw)");
  EXPECT_EQ(Meaning(parser.Append("o\n")), "A(o)");
  EXPECT_EQ(Meaning(parser.Append("\n</param")), "A(\\n)");
}

TEST(AnswerParserTest, ArgumentsOfGemmaStream) {
  const AnswerOptions options = OptionsOf({.parser = "gemma4"});
  AnswerParser parser(options, /*in_reasoning=*/false);
  EXPECT_EQ(Meaning(parser.Append("Yes<|tool_")), "C(Yes)");
  EXPECT_EQ(Meaning(parser.Append("call>call:now")), "");
  EXPECT_EQ(Meaning(parser.Append("{ci")), "F(now)A({)");
  EXPECT_EQ(Meaning(parser.Append("ty:<|\"|>one\ntw")), "A(\"city\":\"one\\u000atw)");
  EXPECT_EQ(Meaning(parser.Append("o <|\"")), "A(o )");
  EXPECT_EQ(Meaning(parser.Append("|>}")), "A(\"})");
  EXPECT_EQ(Meaning(parser.Append("<tool_call|>")), "");
}

TEST(AnswerParserTest, MessagesOfHarmonyStream) {
  const AnswerOptions options = OptionsOf({.parser = "gpt_oss", .reasoning = "gpt_oss"});
  AnswerParser parser(options, /*in_reasoning=*/false);
  EXPECT_EQ(Meaning(parser.Append("<|channel|>")), "");
  EXPECT_EQ(Meaning(parser.Append("analysis")), "");
  EXPECT_EQ(Meaning(parser.Append("<|message|>I")), "R(I)");
  EXPECT_EQ(Meaning(parser.Append(" look <")), "R( look)");
  EXPECT_EQ(Meaning(parser.Append("b> ")), "R( <b>)");
  EXPECT_EQ(Meaning(parser.Append("<|end|>")), "");
  EXPECT_EQ(Meaning(parser.Append("<|start|>assistant")), "R( )");
  EXPECT_EQ(Meaning(parser.Append(" to=functions.now<|channel|>commentary json")), "");
  EXPECT_EQ(Meaning(parser.Append("<|message|>")), "");
  EXPECT_EQ(Meaning(parser.Append("{\"a")), "F(now)A({)");
  EXPECT_EQ(Meaning(parser.Append("\": \"x")), "A(\"a\": \"x)");
  EXPECT_EQ(Meaning(parser.Append("y\"}")), "A(y\"})");
  EXPECT_EQ(Meaning(parser.Append("<|call|>")), "");
  EXPECT_EQ(Meaning(parser.Finish()), "");
}

// An answer without a header, as of a model that was trained further, does not wait for one.
TEST(AnswerParserTest, TextWithoutHarmonyStreams) {
  const AnswerOptions options = OptionsOf({.reasoning = "gpt_oss"});
  AnswerParser parser(options, /*in_reasoning=*/false);
  EXPECT_EQ(Meaning(parser.Append("H")), "C(H)");
  EXPECT_EQ(Meaning(parser.Append("i <|")), "C(i)");
  EXPECT_EQ(Meaning(parser.Append("x")), "C( <|x)");
}

// Time that grows faster than the text would not end here.
TEST(AnswerParserTest, TakesLongTextsByteByByte) {
  constexpr size_t kNumBytes = 1 << 20;
  for (const char* parser :
       {"hermes", "llama3_json", "mistral", "qwen3_coder", "gemma4", "gpt_oss"}) {
    for (const std::string& text : {std::string(kNumBytes, ' '), std::string(kNumBytes, '<'),
                                    "<tool_call>{\"name\": \"" + std::string(kNumBytes, 'a'),
                                    "[TOOL_CALLS]a[CALL_ID]" + std::string(kNumBytes, 'a'),
                                    "<tool_call>{\"arguments\": " + std::string(kNumBytes, '['),
                                    "<|tool_call>call:f{a:<|\"|>" + std::string(kNumBytes, '<'),
                                    "<|tool_call>call:f{a" + std::string(kNumBytes, ' ') + "b:1}",
                                    "<function=f><parameter=a>" + std::string(kNumBytes, '\n')}) {
      const AnswerOptions options = OptionsOf({.parser = parser});
      AnswerParser reader(options, /*in_reasoning=*/false);
      size_t num_bytes = 0;
      const auto count = [&num_bytes](const std::vector<AnswerEvent>& events) {
        for (const AnswerEvent& event : events) num_bytes += event.text.size();
      };
      for (const char c : text) count(reader.Append(std::string_view(&c, 1)));
      count(reader.Finish());
      EXPECT_GE(num_bytes, kNumBytes - 1);
    }
  }
}

TEST(AnswerParserTest, TakesLongAnswersInHarmonyByteByByte) {
  constexpr size_t kNumBytes = 1 << 20;
  const AnswerOptions options = OptionsOf({.parser = "gpt_oss", .reasoning = "gpt_oss"});
  for (const std::string part :
       {"<", " ", "<|end|>", "<|end|><|start|>assistant", "<|start|>assistant<|channel|>",
        "<|channel|>a<|message|><|end|>", "<|end|> <|start|>assistan", "<|start|>assistant to=",
        "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{"}) {
    std::string text = "<|channel|>final<|message|>a";
    while (text.size() < kNumBytes) text += part;
    AnswerParser parser(options, /*in_reasoning=*/false);
    std::string meaning = Meaning(parser.Append(text.substr(0, 100)));
    for (size_t i = 100; i < text.size(); ++i) parser.Append(text.substr(i, 1));
    parser.Finish();
    EXPECT_TRUE(meaning.starts_with("C(a"));
  }
}

}  // namespace
}  // namespace quire
