// The requests of quire-bench serve and its reports: arrivals, datasets, reports of whole and
// interrupted runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <set>

#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/load/arrivals.h"
#include "tools/bench/serve/dataset.h"
#include "tools/bench/serve/serve_report.h"
#include "tools/bench/statistics.h"

namespace quire::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

// Due at 0, sent `sent_ms` later, with a token every 10 ms.
RequestRecord Record(double sent_ms, int num_tokens) {
  RequestRecord record;
  record.outcome = Outcome::kCompleted;
  record.sent = record.ended = sent_ms / 1000;
  record.first_token = record.sent + 0.01;
  record.itl_ms.assign(num_tokens > 0 ? num_tokens - 1 : 0, 10);
  record.last_token = record.ended = record.sent + 0.01 * num_tokens;
  record.prompt_tokens = 100;
  record.num_tokens = record.completion_tokens = num_tokens;
  return record;
}

RequestRecord Ended(RequestRecord record, Outcome outcome, const std::string& problem = "") {
  record.outcome = outcome;
  record.problem = problem;
  return record;
}

ServeReport Report(std::vector<RequestRecord> records, const ReportOptions& options = {}) {
  return MakeServeReport({.records = std::move(records), .effort = {}}, options);
}

TEST(ServeReportTest, CountsAWholeRun) {
  const ServeReport report =
      Report({Record(0, 3), Ended(Record(0, 0), Outcome::kFailed, "full"), Record(20, 2)});
  EXPECT_EQ(report.num_completed, 2);
  EXPECT_EQ(report.num_failed, 1);
  EXPECT_EQ(report.first_problem, "full");
  EXPECT_EQ(report.prompt_tokens, 200);
  EXPECT_EQ(report.output_tokens, 5);
  EXPECT_DOUBLE_EQ(report.seconds, 0.04);
  EXPECT_THAT(report.ttft_ms, Each(testing::DoubleNear(10, 1e-9)));
  EXPECT_THAT(report.itl_ms, ElementsAre(10, 10, 10));
  EXPECT_THAT(report.tpot_ms, Each(testing::DoubleNear(10, 1e-9)));
  EXPECT_NEAR(std::accumulate(report.e2el_ms.begin(), report.e2el_ms.end(), 0.0), 50, 1e-9);
  const auto json = ToJson(report, {}, {});
  EXPECT_NEAR(json["request_throughput"].get<double>(), 2 / 0.04, 1e-9);
  EXPECT_NEAR(json["p99_ttft_ms"].get<double>(), 10, 1e-9);
  EXPECT_EQ(json["problems"][0]["count"], 1);
  EXPECT_EQ(json["max_output_tokens_per_s"], 5);
  EXPECT_THAT(ToText(report, {}), Not(HasSubstr("cancelled")));
}

// A server that stands still must show in the latencies of those who could not even be sent.
TEST(ServeReportTest, WaitingInTheClientCountsWhereRequestsAreDue) {
  const ServeReport due = Report({Record(2000, 2)}, {.from_due = true});
  EXPECT_NEAR(due.ttft_ms[0], 2010, 1e-6);
  EXPECT_NEAR(due.client_queue_time_ms[0], 2000, 1e-6);
  EXPECT_THAT(ToText(due, {.from_due = true}), HasSubstr("queued in the client"));
  const ServeReport sent = Report({Record(2000, 2)});
  EXPECT_NEAR(sent.ttft_ms[0], 10, 1e-6);
  EXPECT_NEAR(sent.client_queue_time_ms[0], 2000, 1e-6);
}

TEST(ServeReportTest, AnInterruptedRunKeepsWhatCame) {
  RequestRecord running = Ended(Record(10, 2), Outcome::kInterrupted);  // of more
  running.completion_tokens = 0;  // the server's count never came
  const ServeReport report =
      Report({Record(0, 3), running, Ended(Record(10, 0), Outcome::kInterrupted),
              Ended(Record(0, 1), Outcome::kAbandoned), Ended(Record(0, 0), Outcome::kTimedOut),
              RequestRecord(), RequestRecord()});
  EXPECT_EQ(report.num_completed, 1);
  EXPECT_EQ(report.num_failed, 0);
  EXPECT_EQ(report.num_interrupted, 2);
  EXPECT_EQ(report.num_abandoned, 1);
  EXPECT_EQ(report.num_timed_out, 1);
  EXPECT_EQ(report.num_unsent, 2);
  EXPECT_EQ(report.output_tokens, 6);
  EXPECT_EQ(report.prompt_tokens, 300);
  EXPECT_DOUBLE_EQ(report.seconds, 0.03);
  EXPECT_THAT(report.ttft_ms, SizeIs(3));
  EXPECT_THAT(report.e2el_ms, SizeIs(1));
  EXPECT_THAT(ToText(report, {}),
              HasSubstr("1 cancelled on purpose, 1 past their deadline, 2 cancelled, 2 not sent"));
}

TEST(ServeReportTest, NothingSentIsAllZero) {
  const ServeReport report = Report({RequestRecord()});
  EXPECT_EQ(report.num_unsent, 1);
  EXPECT_EQ(ToJson(report, {}, {})["output_throughput"], 0.0);
}

// Between the tokens of one there is nothing, which is not no time.
TEST(ServeReportTest, WhatNobodyHasIsNotZero) {
  const ServeReport report = Report({Record(0, 1), Record(0, 1)});
  const auto json = ToJson(report, {}, {});
  for (const char* key : {"mean_itl_ms", "median_itl_ms", "std_itl_ms", "p99_itl_ms",
                          "mean_tpot_ms", "p99_tpot_ms"}) {
    ASSERT_TRUE(json.contains(key)) << key;
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_NEAR(json["mean_ttft_ms"].get<double>(), 10, 1e-9);
  EXPECT_EQ(json["tokens_per_piece"], 1.0);
  EXPECT_THAT(ToText(report, {}), ContainsRegex("inter-token latency( +-){5}\n"));
  EXPECT_THAT(ToText(report, {}), ContainsRegex("time to first token( +10.00){5}\n"));
  EXPECT_TRUE(ToJson(Report({Record(0, 0)}), {}, {})["tokens_per_piece"].is_null());
  EXPECT_TRUE(ToJson(Distribution({}))["p50"].is_null());
}

TEST(ServeReportTest, GoodRequestsKeepAllTheirBounds) {
  const auto goodput = ParseGoodput({"ttft:200", "e2el:60"});
  ASSERT_TRUE(goodput.ok());
  const ReportOptions options = {.goodput = *goodput};
  const ServeReport report = Report({Record(0, 3), Record(0, 7), Record(0, 6)}, options);
  EXPECT_EQ(report.num_good, 2);
  EXPECT_NEAR(ToJson(report, {}, options)["request_goodput"].get<double>(), 2 / 0.07, 1e-6);
  EXPECT_TRUE(ToJson(report, {}, {})["request_goodput"].is_null());
  for (const char* wrong : {"ttft", "ttft:", "ttft:x", "ttft:-1", "itl:3"}) {
    EXPECT_EQ(ExitCodeOf(ParseGoodput({wrong}).status()), kUsage) << wrong;
  }
}

TEST(ServeReportTest, TheFileHasVllmsKeys) {
  const auto json = ToJson(Report({Record(0, 3)}), {}, {.percentiles = {50, 99.9}});
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, IsSupersetOf({"duration", "completed", "failed", "total_input_tokens",
                                  "total_output_tokens", "request_throughput", "request_goodput",
                                  "output_throughput", "total_token_throughput",
                                  "max_output_tokens_per_s", "max_concurrent_requests",
                                  "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p50_ttft_ms",
                                  "p99.9_ttft_ms", "mean_tpot_ms", "p50_itl_ms", "p99.9_e2el_ms"}));
  const auto detailed = DetailedJson({Record(5, 3), RequestRecord()});
  EXPECT_EQ(detailed["input_lens"], nlohmann::json({100}));
  EXPECT_EQ(detailed["itls"][0].size(), 2u);
  EXPECT_NEAR(detailed["start_times"][0].get<double>(), 0.005, 1e-12);
}

TEST(ServeReportTest, AClientThatCannotKeepUpSaysSo) {
  EXPECT_EQ(ClientWarning({.seconds = 10, .cpu_seconds = 1, .lag_ms = {0.1, 0.2}}), "");
  EXPECT_THAT(ClientWarning({.seconds = 10, .cpu_seconds = 9.5, .lag_ms = {0.1}}),
              AllOf(HasSubstr("busy 95 % of the time"), HasSubstr("several clients")));
  EXPECT_THAT(ClientWarning({.seconds = 10, .cpu_seconds = 1, .lag_ms = {50, 50}}),
              AllOf(HasSubstr("more than 50.0 ms late"), HasSubstr("other programs")));
}

TEST(ArrivalsTest, AreOfTheirRate) {
  constexpr int64_t kMany = 20'000;
  for (const double burstiness : {0.3, 1.0, 10.0}) {
    const auto due = DrawArrivals({.rate = 50, .burstiness = burstiness}, kMany, 3);
    ASSERT_THAT(due, SizeIs(kMany));
    EXPECT_TRUE(std::is_sorted(due.begin(), due.end()));
    const double mean = due.back() / (kMany - 1);
    EXPECT_NEAR(mean, 1 / 50.0, 0.0006) << burstiness;
    double sum = 0;
    for (size_t i = 1; i < due.size(); ++i) sum += std::pow(due[i] - due[i - 1] - mean, 2);
    // A gamma distribution's squared coefficient of variation is 1 / shape.
    EXPECT_NEAR(sum / (kMany - 1) / (mean * mean) * burstiness, 1, 0.15) << burstiness;
  }
  EXPECT_EQ(DrawArrivals({.rate = 5}, 100, 7), DrawArrivals({.rate = 5}, 100, 7));
  EXPECT_NE(DrawArrivals({.rate = 5}, 100, 7), DrawArrivals({.rate = 5}, 100, 8));
  EXPECT_THAT(DrawArrivals({}, 3, 1), ElementsAre(0, 0, 0));
}

TEST(ArrivalsTest, ARampGoesFromOneRateToAnother) {
  constexpr int64_t kMany = 20'000;
  for (const char* ramp : {"linear", "exponential"}) {
    const Arrivals arrivals = {.burstiness = 100, .ramp = ramp, .ramp_start = 10, .ramp_end = 1000};
    ASSERT_TRUE(CheckArrivals(arrivals).ok());
    const auto due = DrawArrivals(arrivals, kMany, 5);
    EXPECT_NEAR((due[100] - due[0]) / 100, 1 / 10.0, 0.04) << ramp;
    EXPECT_NEAR((due[kMany - 1] - due[kMany - 101]) / 100, 1 / 1000.0, 0.0002) << ramp;
  }
  EXPECT_FALSE(CheckArrivals({.ramp_start = 1}).ok());
  EXPECT_FALSE(CheckArrivals({.ramp = "linear", .ramp_start = 1}).ok());
  EXPECT_FALSE(CheckArrivals({.rate = 1, .ramp = "linear", .ramp_start = 1, .ramp_end = 2}).ok());
}

class DatasetTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    const std::string path = absl::StrCat(::testing::TempDir(), "dataset_", getpid());
    std::ofstream(path) << text;
    return path;
  }
  static std::string Refusal(const DatasetFlags& flags) {
    const auto items = MakeDataset(flags, 1000, 1000);
    EXPECT_EQ(ExitCodeOf(items.status()), kUsage);
    return std::string(items.status().message());
  }
};

TEST_F(DatasetTest, PrefixesRepeat) {
  DatasetFlags flags = {.name = "prefix_repetition",
                        .num_prefixes = 3,
                        .prefix_len = 5,
                        .suffix_len = 4,
                        .prefix_output_len = 2};
  flags.random.num_prompts = 30;
  const auto items = MakeDataset(flags, 1000, 1000);
  ASSERT_TRUE(items.ok()) << items.status();
  std::set<std::vector<int32_t>> prefixes, prompts;
  for (const WorkItem& item : *items) {
    ASSERT_THAT(item.prompt, SizeIs(9));
    EXPECT_EQ(item.output_len, 2);
    prefixes.insert({item.prompt.begin(), item.prompt.begin() + 5});
    prompts.insert(item.prompt);
  }
  EXPECT_THAT(prefixes, SizeIs(3));
  EXPECT_THAT(prompts, SizeIs(30));
  EXPECT_THAT(std::string(MakeDataset(flags, 1000, 10).status().message()),
              HasSubstr("do not fit the context of 10 tokens"));
}

TEST_F(DatasetTest, TextsComeFromFiles) {
  DatasetFlags flags = {.name = "custom"};
  flags.random.num_prompts = 3;
  EXPECT_THAT(std::string(CheckDatasetFlags(&flags).message()),
              HasSubstr("--dataset-path is missing"));
  flags.path = Write("{\"prompt\": \"a\", \"output_tokens\": 7}\n\n{\"prompt\": \"b\"}\n");
  auto items = MakeDataset(flags, 0, 0);
  ASSERT_TRUE(items.ok()) << items.status();
  ASSERT_THAT(*items, SizeIs(3));  // from the beginning again
  for (const WorkItem& item : *items) EXPECT_EQ(item.output_len, item.text == "a" ? 7 : 256);
  flags.file_output_len = 5;
  EXPECT_EQ(MakeDataset(flags, 0, 0)->front().output_len, 5);
  flags.path = Write("{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n");
  EXPECT_THAT(Refusal(flags), HasSubstr("line 2"));

  flags = {.name = "sharegpt"};
  flags.random.num_prompts = 1;
  flags.path = Write(R"([{"conversations": [{"value": "only a question"}]}, 7, {"conversations":
      [{"from": "human", "value": "question"}, {"from": "gpt", "value": "twelve chars"}]}])");
  items = MakeDataset(flags, 0, 0);
  ASSERT_TRUE(items.ok()) << items.status();
  EXPECT_EQ(items->front().text, "question");
  EXPECT_EQ(items->front().output_len, 3);
  flags.path = Write("{}");
  EXPECT_THAT(Refusal(flags), HasSubstr("no JSON list"));
}

TEST_F(DatasetTest, WordsStandForTokens) {
  DatasetFlags flags;
  flags.text = true;
  flags.random = {.num_prompts = 4, .input_len = 6, .shared_prefix_len = 4, .seed = 3};
  const auto items = MakeDataset(flags, 0, 0);
  ASSERT_TRUE(items.ok()) << items.status();
  std::set<std::string> beginnings;
  for (const WorkItem& item : *items) {
    EXPECT_TRUE(item.prompt.empty());
    EXPECT_EQ(std::count(item.text.begin(), item.text.end(), ' '), 5);
    size_t end = 0;
    for (int i = 0; i < 4; ++i) end = item.text.find(' ', end + 1);
    beginnings.insert(item.text.substr(0, end));
  }
  EXPECT_THAT(beginnings, SizeIs(1));
}

TEST_F(DatasetTest, LengthsDifferWithinTheirRange) {
  DatasetFlags flags;
  flags.random = {.num_prompts = 500, .input_len = 100, .output_len = 10, .range_ratio = 0.5};
  const auto items = MakeDataset(flags, 1000, 1000);
  ASSERT_TRUE(items.ok());
  std::set<size_t> inputs;
  std::set<int64_t> outputs;
  for (const WorkItem& item : *items) {
    inputs.insert(item.prompt.size());
    outputs.insert(item.output_len);
  }
  EXPECT_GE(*inputs.begin(), 50u);
  EXPECT_LE(*inputs.rbegin(), 150u);
  EXPECT_GT(inputs.size(), 80u);
  EXPECT_THAT(outputs, ElementsAre(5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

}  // namespace
}  // namespace quire::bench
