// The questions of quire-bench quality, when an answer is right, and how two runs are compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/quality/quality_items.h"
#include "tools/bench/quality/quality_report.h"
#include "tools/bench/quality/recorded_answers.h"

namespace quire::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Write(const std::string& text) {
  const std::string path = absl::StrCat(::testing::TempDir(), "quality_", getpid());
  std::ofstream(path) << text;
  return path;
}

std::vector<QualityItem> Items(const std::string& text, const QualityFileOptions& options = {}) {
  const auto items = ReadQualityItems(Write(text), options);
  EXPECT_TRUE(items.ok()) << items.status();
  return *items;
}

std::string Refusal(const std::string& text, const QualityFileOptions& options = {}) {
  const auto items = ReadQualityItems(Write(text), options);
  EXPECT_EQ(ExitCodeOf(items.status()), kUsage);
  return std::string(items.status().message());
}

constexpr char kAllKinds[] =
    "{\"prompt\": \"1+1=\", \"answer\": \"2\", \"task\": \"sums\", \"max_tokens\": 5, \"stop\": "
    "\"\\n\"}\n\n"
    "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": "
    "\"u\"}], \"answers\": [\"a\", \"b\"]}\n"
    "{\"text\": \"Once upon a time\"}\n"
    "{\"prompt\": \"sky:\", \"choices\": [\" blue\", \" green\"], \"answer\": \" green\"}\n";

TEST(QualityItemsTest, TheMembersOfALineSayWhatIsAsked) {
  const auto items = Items(kAllKinds, {.max_tokens = 9, .stop = {"END"}});
  ASSERT_THAT(items, SizeIs(4));
  EXPECT_EQ(items[0].kind, QualityKind::kAnswer);
  EXPECT_EQ(items[0].request.text, "1+1=");
  EXPECT_EQ(items[0].request.output_len, 5);
  EXPECT_THAT(items[0].request.stop, ElementsAre("\n"));
  EXPECT_EQ(items[0].task, "sums");
  EXPECT_EQ(items[1].line, 3);
  EXPECT_THAT(items[1].request.messages, SizeIs(2));
  EXPECT_EQ(items[1].request.messages[1].content, "u");
  EXPECT_EQ(items[1].request.output_len, 9);
  EXPECT_THAT(items[1].request.stop, ElementsAre("END"));
  EXPECT_THAT(items[1].answers, ElementsAre("a", "b"));
  EXPECT_EQ(items[2].kind, QualityKind::kText);
  EXPECT_EQ(items[3].kind, QualityKind::kChoice);
  EXPECT_EQ(items[3].right_choice, 1u);
  EXPECT_NE(items[0].fingerprint, items[1].fingerprint);
  EXPECT_THAT(Items(kAllKinds, {.every = 3}), SizeIs(2));

  std::vector<size_t> owners;
  const auto requests = ScoringRequests(items, &owners);
  std::vector<std::string> texts;
  for (const WorkItem& request : requests) texts.push_back(request.text);
  EXPECT_THAT(texts, ElementsAre("Once upon a time", "sky:", "sky: blue", "sky: green"));
  EXPECT_THAT(owners, ElementsAre(2, 3, 3, 3));
}

TEST(QualityItemsTest, WrongLinesAreNamed) {
  EXPECT_THAT(Refusal("{\"prompt\": \"a\"}\n{}\n"), HasSubstr("line 2: has no \"prompt\""));
  EXPECT_THAT(Refusal("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(Refusal("\n"), HasSubstr("has no lines"));
  EXPECT_THAT(Refusal("{\"prompt\": \"a\", \"answer\": 7}"), HasSubstr("\"answer\""));
  EXPECT_THAT(Refusal("{\"prompt\": \"a\", \"max_tokens\": 0}"), HasSubstr("\"max_tokens\""));
  EXPECT_THAT(Refusal("{\"messages\": [{\"content\": \"a\"}]}"), HasSubstr("no \"role\""));
  EXPECT_THAT(Refusal("{\"text\": 3}"), HasSubstr("no text"));
  for (const char* answer : {"2", "-1", "\"x\"", "null"}) {
    EXPECT_THAT(
        Refusal(absl::StrCat(R"({"prompt": "a", "choices": ["b", "c"], "answer": )", answer, "}")),
        HasSubstr("\"answer\""));
  }
  EXPECT_THAT(Refusal(kAllKinds, {.takes_messages = false}), HasSubstr("line 3: \"messages\" go"));
  EXPECT_THAT(Refusal(kAllKinds, {.tells_likelihoods = false}),
              HasSubstr("line 4: asks how likely"));
}

TEST(IsRightTest, ComparesTextsAndJsonValues) {
  EXPECT_TRUE(IsRight(" 85\n", {"85"}, {}));
  EXPECT_FALSE(IsRight("855", {"85"}, {}));
  EXPECT_FALSE(IsRight("85.", {"85"}, {}));
  EXPECT_TRUE(IsRight("b", {"a", "b"}, {}));
  EXPECT_FALSE(IsRight("", {}, {}));
  EXPECT_TRUE(IsRight(R"({"age":7, "name":"Tom"})", {R"({"name": "Tom", "age": 7})"}, {}));
  EXPECT_FALSE(IsRight(R"({"name": "Tom", "age": "7"})", {R"({"name": "Tom", "age": 7})"}, {}));
  EXPECT_FALSE(IsRight("{", {"{}"}, {}));
  EXPECT_FALSE(IsRight("7.0", {"7"}, {}));  // a number is a text
  EXPECT_TRUE(IsRight("Oslo!", {"oslo"}, {.ignore_case = true, .ignore_punctuation = true}));
  EXPECT_FALSE(IsRight("Oslo!", {"oslo"}, {.ignore_case = true}));
  EXPECT_TRUE(IsRight("1 #### 2, so #### 3 ", {"3"}, {.answer_after = "####"}));
  EXPECT_FALSE(IsRight("3", {"3"}, {.answer_after = "####"}));
}

RequestRecord Scored(std::vector<float> prompt_logprobs) {
  RequestRecord record;
  record.outcome = Outcome::kCompleted;
  record.completion_tokens = 1;
  record.prompt_logprobs = std::move(prompt_logprobs);
  return record;
}

RequestRecord Answered(const std::string& text, std::vector<int32_t> ids = {},
                       std::vector<float> logprobs = {}) {
  RequestRecord record;
  record.outcome = Outcome::kCompleted;
  record.text = text;
  record.token_ids = std::move(ids);
  record.logprobs = std::move(logprobs);
  return record;
}

TEST(QualityReportTest, ScoresEachKind) {
  const auto items = Items(kAllKinds);
  std::vector<QualityResult> results(4);
  TakeAnswer(Answered("2"), &results[0]);
  TakeAnswer(Answered("c"), &results[1]);
  // An echo has the logprob of what was generated after it, too.
  RequestRecord echo = Scored({});
  echo.logprobs = {-1, -2, -3, -50};
  TakeScore(echo, &results[2]);
  // Together the longer choice is less likely, per byte it is likelier.
  TakeScore(Scored({-1}), &results[3]);
  TakeScore(Scored({-1, -5}), &results[3]);
  TakeScore(Scored({-1, -5.5}), &results[3]);
  const QualityReport report = MakeQualityReport(items, results, {});
  EXPECT_EQ(report.num_failed, 0);
  EXPECT_THAT(report.wrong, ElementsAre(1));
  const auto json = ToJson(report);
  EXPECT_EQ(json["results"]["sums"]["exact_match"], 1.0);
  const auto& total = json["results"]["total"];
  EXPECT_EQ(total["exact_match"], 0.5);
  EXPECT_NEAR(total["perplexity"].get<double>(), std::exp(2), 1e-9);
  EXPECT_NEAR(total["bits_per_byte"].get<double>(), 6 / std::log(2) / 16, 1e-9);
  EXPECT_EQ(total["num_tokens"], 3);
  EXPECT_EQ(total["acc"], 0.0);
  EXPECT_EQ(total["acc_norm"], 1.0);
  EXPECT_DOUBLE_EQ(report.total.ShareRight(), 1 / 3.0);
  EXPECT_THAT(ToText(report), HasSubstr("    1 of     2 right, 50.0 %"));
}

TEST(QualityReportTest, WhatFailedIsNotScored) {
  const auto items = Items(kAllKinds);
  std::vector<QualityResult> results(4);
  RequestRecord failed;
  failed.outcome = Outcome::kFailed;
  failed.problem = "full";
  TakeAnswer(failed, &results[1]);
  TakeScore(Scored({}), &results[2]);
  TakeScore(failed, &results[3]);  // of three
  TakeScore(Scored({-1}), &results[3]);
  TakeScore(Scored({-1}), &results[3]);
  const QualityReport report = MakeQualityReport(items, results, {});
  EXPECT_EQ(report.num_failed, 3);
  EXPECT_EQ(report.num_unasked, 1);
  EXPECT_EQ(report.first_problem, "full");
  EXPECT_THAT(results[2].problem, HasSubstr("no logprobs of the text came"));
  EXPECT_EQ(ToJson(report)["results"]["total"], nlohmann::json::object());
}

TEST(ComparisonTest, SaysWhereAnswersDiffer) {
  const auto items = Items(kAllKinds);
  std::vector<QualityResult> one(4), other(4);
  TakeAnswer(Answered("2", {7, 8, 9}, {-1, -1, -1}), &one[0]);
  TakeAnswer(Answered("2", {7, 8, 6}, {-1, -1.5, -9}), &other[0]);
  TakeAnswer(Answered("same", {1}, {-2}), &one[1]);
  TakeAnswer(Answered("same", {1}, {-2}), &other[1]);
  TakeScore(Scored({-1, -2}), &one[2]);
  TakeScore(Scored({-1.25, -2}), &other[2]);
  TakeScore(Scored({-1}), &one[3]);
  const auto read = ReadRecordedAnswers(Write(RecordAnswers(items, one)), items);
  // The file of questions is gone by now; what matters is what was read of it.
  ASSERT_TRUE(read.ok()) << read.status();
  const AnswerComparison comparison = Compare(items, *read, other, /*first_tokens=*/2);
  EXPECT_EQ(comparison.num_compared, 2);
  EXPECT_EQ(comparison.num_identical, 1);
  EXPECT_EQ(comparison.num_begin_alike, 2);
  EXPECT_THAT(comparison.divergences, ElementsAre(2));
  EXPECT_EQ(comparison.num_missing, 1);
  EXPECT_THAT(comparison.logprob_differences, ElementsAre(0, 0.5, 0, 0.25, 0));
  EXPECT_EQ(Compare(items, *read, other, 3).num_begin_alike, 1);
  const auto json = ToJson(comparison);
  EXPECT_EQ(json["share_identical"], 0.5);
  EXPECT_EQ(json["median_first_divergence"], 2.0);
  EXPECT_EQ(json["max_logprob_difference"], 0.5);
  EXPECT_THAT(ToText(comparison), HasSubstr("the first 2 tokens of 2"));
}

TEST(ComparisonTest, TextsAreComparedWhereThereAreNoIds) {
  const auto items = Items("{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n");
  std::vector<QualityResult> one(2), other(2);
  TakeAnswer(Answered("abc", {1, 2}, {-1, -1}), &one[0]);
  TakeAnswer(Answered("abd", {}, {-1, -3}), &other[0]);
  TakeAnswer(Answered("abc", {1, 2}, {-1, -1}), &one[1]);
  TakeAnswer(Answered("abcd", {}, {}), &other[1]);
  const AnswerComparison comparison = Compare(items, one, other, 3);
  EXPECT_EQ(comparison.num_identical, 0);
  EXPECT_EQ(comparison.num_begin_alike, 1);
  EXPECT_THAT(comparison.divergences, ElementsAre(2, 3));
  EXPECT_THAT(comparison.logprob_differences, SizeIs(0));
}

TEST(ComparisonTest, AnswersToOtherQuestionsAreRefused) {
  const auto items = Items("{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n");
  std::vector<QualityResult> results(2);
  for (QualityResult& result : results) TakeAnswer(Answered("x"), &result);
  const std::string recorded = RecordAnswers(items, results);
  const auto others = Items("{\"prompt\": \"a\"}\n{\"prompt\": \"c\"}\n");
  const auto refused = ReadRecordedAnswers(Write(recorded), others);
  EXPECT_EQ(ExitCodeOf(refused.status()), kUsage);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("another question than line 2"));
  for (const char* wrong : {"7\n", "{}\n",
                            "{\"line\": 1, \"fingerprint\": \"\", \"text\": \"\", "
                            "\"token_ids\": [1.5], \"logprobs\": []}\n"}) {
    const auto status = ReadRecordedAnswers(Write(wrong), items).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("line 1: is no line that --save-answers"));
  }
  EXPECT_FALSE(ReadRecordedAnswers("/nowhere", items).ok());
}

}  // namespace
}  // namespace quire::bench
