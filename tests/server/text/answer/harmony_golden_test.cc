// Answers in harmony, taken apart as OpenAI's own library takes them (golden/harmony.json, made by
// make_harmony_golden.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/server/text/answer/answer_samples.h"

namespace quire {
namespace {

using Json = nlohmann::json;

// The events that the library's messages are to clients.
std::vector<AnswerEvent> EventsOf(const Json& messages) {
  constexpr std::string_view kFunctions = "functions.";
  std::vector<AnswerEvent> events;
  for (const Json& message : messages) {
    const auto recipient = message.at("recipient").get<std::string>();
    const auto content = message.at("content").get<std::string>();
    if (recipient.starts_with(kFunctions)) {
      events.push_back({AnswerEvent::Kind::kCall, recipient.substr(kFunctions.size())});
      events.push_back({AnswerEvent::Kind::kArguments, content});
      continue;
    }
    const bool is_reasoning = message.at("channel") == "analysis";
    const auto kind = is_reasoning ? AnswerEvent::Kind::kReasoning : AnswerEvent::Kind::kContent;
    if (!events.empty() && events.back().kind == kind) {
      absl::StrAppend(&events.back().text, "\n", content);
    } else {
      events.push_back({kind, content});
    }
  }
  return events;
}

// A call is a client's tag: white space right behind it is not told.
std::string MeaningOf(const Json& messages) {
  std::vector<AnswerEvent> events = EventsOf(messages);
  for (size_t i = 1; i < events.size(); ++i) {
    std::string& text = events[i].text;
    const bool is_text = events[i].kind <= AnswerEvent::Kind::kContent;
    const bool follows_call = events[i - 1].kind == AnswerEvent::Kind::kArguments;
    if (is_text && follows_call) text.erase(0, text.find_first_not_of(" \n"));
  }
  return Meaning(events);
}

TEST(HarmonyGoldenTest, AnswersAreWhatTheLibraryParses) {
  std::ifstream file("tests/server/text/answer/golden/harmony.json");
  const Json answers = Json::parse(file).at("answers");
  ASSERT_GT(answers.size(), 30);
  const AnswerOptions options = OptionsOf({.parser = "gpt_oss", .reasoning = "gpt_oss"});
  for (const Json& answer : answers) {
    const auto text = answer.at("text").get<std::string>();
    for (const size_t step : {size_t{1}, size_t{7}, text.size()}) {
      AnswerParser parser(options, /*in_reasoning=*/false);
      std::vector<AnswerEvent> events;
      for (size_t begin = 0; begin < text.size(); begin += step) {
        for (AnswerEvent& event : parser.Append(std::string_view(text).substr(begin, step))) {
          events.push_back(std::move(event));
        }
      }
      for (AnswerEvent& event : parser.Finish()) events.push_back(std::move(event));
      EXPECT_EQ(Meaning(events), MeaningOf(answer.at("messages"))) << text;
    }
  }
}

}  // namespace
}  // namespace quire
