// Logprobs as OpenAI's JSON: bytes, spellings that differ, offsets.
#include "server/surfaces/openai/openai_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

struct Token {
  TokenId id;
  std::string bytes;
  float logprob;
};

std::vector<AnswerToken> Logprobs(const Token& token, const std::vector<Token>& top = {},
                                  int64_t text_offset = 0) {
  AnswerToken answer = {
      .id = token.id, .bytes = token.bytes, .logprob = token.logprob, .text_offset = text_offset};
  for (const Token& one : top) answer.top.push_back({one.id, one.bytes, one.logprob});
  return {answer};
}

Json OfChat(const std::vector<AnswerToken>& logprobs, bool as_ids = false) {
  LogprobJson json;
  json.Add(logprobs, {.is_chat = true, .as_ids = as_ids});
  return Json::parse(json.ToText(/*is_chat=*/true))["content"][0];
}

// The object of the first token, with all its members, also those that have one name.
std::vector<std::pair<std::string, float>> TopOfCompletion(
    const std::vector<AnswerToken>& logprobs) {
  LogprobJson json;
  json.Add(logprobs, {});
  std::vector<std::pair<std::string, float>> members;
  const std::string text = json.ToText(/*is_chat=*/false);
  std::string key;
  const Json parsed = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key) key = value.get<std::string>();
    if (event == Json::parse_event_t::value && depth == 3) {
      members.emplace_back(key, value.get<float>());
    }
    return true;
  });
  EXPECT_TRUE(parsed.is_object());
  return members;
}

using Members = std::vector<std::pair<std::string, float>>;

TEST(OpenAiJsonTest, ATokenIsSpelledAsItsTextOrItsBytes) {
  EXPECT_EQ(SpellBytes(""), "");
  EXPECT_EQ(SpellBytes(" duck\n"), " duck\n");
  EXPECT_EQ(SpellBytes("\U0001F642"), "\U0001F642");
  EXPECT_EQ(SpellBytes("\xF0"), "bytes:\\xf0");
  EXPECT_EQ(SpellBytes(" \xF0\x9F\x99"), "bytes: \\xf0\\x9f\\x99");
  EXPECT_EQ(SpellBytes("\x82!"), "bytes:\\x82!");
  EXPECT_EQ(SpellBytes("\xC0\xAF"), "bytes:\\xc0\\xaf");           // too long a form
  EXPECT_EQ(SpellBytes("\xED\xA0\x80"), "bytes:\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(SpellBytes("\xEF\xBF\xBD"), "\uFFFD") << "a character like any other";
}

// A client that joins the bytes of four tokens has the emoji.
TEST(OpenAiJsonTest, BytesAreTheTokensOwn) {
  const std::string emoji = "\U0001F642";
  const std::vector<std::pair<int, std::string>> expected = {
      {240, "bytes:\\xf0"}, {159, "bytes:\\x9f"}, {153, "bytes:\\x99"}, {130, "bytes:\\x82"}};
  std::string joined;
  for (size_t i = 0; i < emoji.size(); ++i) {
    const Token token = {7, emoji.substr(i, 1), -0.5f};
    const Json json = OfChat(Logprobs(token, {token}));
    EXPECT_EQ(json["bytes"], Json({expected[i].first}));
    EXPECT_EQ(json["token"].get<std::string>(), expected[i].second);
    EXPECT_EQ(json["top_logprobs"][0]["bytes"], json["bytes"]);
    for (const int byte : json["bytes"]) joined.push_back(static_cast<char>(byte));
  }
  EXPECT_EQ(joined, emoji);
  EXPECT_EQ(OfChat(Logprobs({5, "\xF0", -1}), /*as_ids=*/true),
            Json::parse(R"({"token": "token_id:5", "logprob": -1.0, "bytes": [240],
                            "top_logprobs": []})"));
}

TEST(OpenAiJsonTest, AlternativesOfOtherBytesHaveOtherNames) {
  const auto logprobs =
      Logprobs({1, "\xF0", -0.5f}, {{1, "\xF0", -0.5f}, {2, "\xF1", -1}, {3, "\xC3", -2}});
  EXPECT_EQ(TopOfCompletion(logprobs),
            (Members{{"bytes:\\xf0", -0.5f}, {"bytes:\\xf1", -1}, {"bytes:\\xc3", -2}}));
}

TEST(OpenAiJsonTest, OfTokensThatAreSpelledAlikeTheLikeliestHasTheName) {
  const auto logprobs =
      Logprobs({9, " a", -3}, {{7, " a", -0.25f}, {8, "b", -1}, {6, " a", -2}, {5, "", -2.5f}});
  EXPECT_EQ(
      TopOfCompletion(logprobs),
      (Members{{" a", -0.25f}, {"b", -1}, {"token_id:6", -2}, {"", -2.5f}, {"token_id:9", -3}}));
}

// OpenAI: "there may be up to logprobs+1 elements".
TEST(OpenAiJsonTest, TheTokenThatWasTakenIsAmongTheLikely) {
  EXPECT_EQ(TopOfCompletion(Logprobs({9, "x", -3}, {{1, "a", -1}, {2, "b", -2}})),
            (Members{{"a", -1}, {"b", -2}, {"x", -3}}));
  EXPECT_EQ(TopOfCompletion(Logprobs({2, "b", -2}, {{1, "a", -1}, {2, "b", -2}})),
            (Members{{"a", -1}, {"b", -2}}));
  EXPECT_EQ(TopOfCompletion(Logprobs({2, "b", -2})), (Members{{"b", -2}}));
}

TEST(OpenAiJsonTest, OffsetsCountFromTheTextAndEndWithIt) {
  LogprobJson json;
  for (const int64_t offset : {0, 0, 1, 5}) {
    json.Add(Logprobs({1, "xxxx", -1}, {}, offset), {.first_offset = 10});
  }
  LogprobJson more;
  more.Add(Logprobs({1, "", -1}, {}, 7), {});
  json.Add(more);
  EXPECT_EQ(Json::parse(json.ToText(false))["text_offset"], Json({10, 10, 11, 15, 7}));
  json.EndOffsetsAt(11);
  EXPECT_EQ(Json::parse(json.ToText(false))["text_offset"], Json({10, 10, 11, 11, 7}));
}

TEST(OpenAiJsonTest, LogprobsThatJsonHasNotAreTheLeast) {
  for (const float logprob :
       {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), -1e9f}) {
    EXPECT_EQ(OfChat(Logprobs({1, "a", logprob}))["logprob"], -9999.0);
  }
}

TEST(OpenAiJsonTest, LogprobsOfAPromptAreByTokenId) {
  std::vector<AnswerToken> logprobs = Logprobs({9, "\xF0", -3}, {{1, "a", -1}, {2, "a", -2}});
  logprobs[0].rank = 5;
  EXPECT_EQ(Json::parse(PromptLogprobsJson(logprobs)), Json::parse(R"([{
      "9": {"logprob": -3.0, "rank": 5, "decoded_token": "bytes:\\xf0"},
      "1": {"logprob": -1.0, "rank": 1, "decoded_token": "a"},
      "2": {"logprob": -2.0, "rank": 2, "decoded_token": "a"}}])"));
}

}  // namespace
}  // namespace quire
