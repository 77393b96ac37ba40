// Saved runs: what is read of files, of ours, of vLLM's and of broken ones; the figures made of
// them again; how sure a change is, and which bounds it breaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/results/comparison.h"
#include "tools/bench/results/resampling.h"
#include "tools/bench/results/workload_check.h"
#include "tools/bench/serve/serve_report.h"
#include "tools/bench/statistics.h"

namespace quire::bench {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A run whose requests took about `scale` as long as another's, as `serve` saves it.
Json Saved(uint64_t seed, double scale, int num_requests, const ReportOptions& options = {}) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> wait(1), gap(1);
  LoadResult result;
  double due = 0;
  for (int i = 0; i < num_requests; ++i) {
    RequestRecord record;
    record.outcome = Outcome::kCompleted;
    record.scheduled = due += 0.01;
    record.sent = due + 0.001;
    record.first_token = record.last_token = record.sent + 0.02 * scale * (1 + wait(random));
    for (int j = 0; j < 10; ++j) {
      const double ms = 4 * scale * gap(random);
      record.itl_ms.push_back(static_cast<float>(ms));
      record.last_token += ms / 1000;
    }
    record.ended = record.last_token;
    record.prompt_tokens = 50;
    record.num_tokens = record.completion_tokens = 11;
    record.is_counted = true;
    result.records.push_back(std::move(record));
  }
  if (num_requests > 4) {  // of each kind that is no sample of everything
    result.records[1].outcome = Outcome::kFailed;
    result.records[1].num_tokens = result.records[1].completion_tokens = 0;
    result.records[1].first_token = 0;
    result.records[1].itl_ms.clear();
    result.records[1].problem = "full";
    result.records[2].outcome = Outcome::kAbandoned;
    result.records[3] = RequestRecord();
  }
  Json json = ToJson(MakeServeReport(result, options), {}, options);
  json.update(DetailedJson(result.records));
  return json;
}

SavedRun Read(Json json, const std::string& path = "a.json") {
  return MakeSavedRun(path, std::move(json)).value();
}

const ComparedFigure& Named(const std::vector<ComparedFigure>& figures, const std::string& name) {
  for (const ComparedFigure& figure : figures) {
    if (figure.figure.name == name) return figure;
  }
  ADD_FAILURE() << "no " << name;
  return figures[0];
}

TEST(SavedRunTest, EveryFigureIsMadeAgainOfTheRequests) {
  const ReportOptions due = {.from_due = true,
                             .percentiles = {0, 37.5, 90, 99, 100},
                             .goodput = {{"ttft", 50}, {"e2el", 120}}};
  for (const ReportOptions& options : {due, ReportOptions{.percentiles = {50, 99}}}) {
    const std::vector<SavedRun> runs = {Read(Saved(3, 1, 200, options))};
    const std::vector<Figure> figures = FiguresOf({&runs[0]});
    const Resampled resampled(runs, figures);
    int num_made = 0;
    for (size_t i = 0; i < figures.size(); ++i) {
      if (!resampled.WhyNot(i).empty()) continue;
      ++num_made;
      const double stated = *NumberAt(runs[0].json(), figures[i].name);
      EXPECT_NEAR(*resampled.Value(i), stated, 1e-3 * std::abs(stated) + 2e-3) << figures[i].name;
    }
    EXPECT_EQ(num_made,
              5 * (3 + static_cast<int>(options.percentiles.size())) + (options.from_due ? 4 : 3));
  }
}

TEST(SavedRunTest, ReadsVllmsFiles) {
  // As vLLM's bench serve saves it: times of its own clock, no latencies, zeros for a request that
  // failed.
  const SavedRun run = Read(Json{{"duration", 2.0},
                                 {"request_goodput", nullptr},
                                 {"output_throughput", 3.0},
                                 {"mean_ttft_ms", 150.0},
                                 {"ttfts", {0.1, 0.2, 0.0}},
                                 {"itls", {{0.01, 0.03}, Json::array({0.05}), Json::array()}},
                                 {"input_lens", {5, 6, 7}},
                                 {"output_lens", {3, 2, 0}},
                                 {"start_times", {7000.5, 7001.0, 7001.0}},
                                 {"errors", {"", "", "boom"}}});
  ASSERT_THAT(run.requests, SizeIs(3));
  EXPECT_DOUBLE_EQ(run.requests[0].start, 0);
  EXPECT_DOUBLE_EQ(run.requests[1].start, 0.5);
  EXPECT_NEAR(*run.requests[0].e2el_ms, 140, 1e-3);
  EXPECT_NEAR(*run.requests[0].tpot_ms, 20, 1e-3);
  EXPECT_FALSE(run.requests[2].e2el_ms.has_value());
  const std::vector<SavedRun> runs = {run};
  EXPECT_THAT(Compare(runs, runs, {.num_resamples = 100}, nullptr), SizeIs(3));
}

TEST(SavedRunTest, WhatIsWrongWithAFileIsSaidByName) {
  std::string folder = ::testing::TempDir() + "quire_saved_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/x.json";
  const auto said = [&](const std::string& text) {
    std::ofstream(path) << text;
    const absl::Status status = ReadSavedRuns(path).status();
    EXPECT_EQ(ExitCodeOf(status), kNoInput) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    return std::string(status.message());
  };
  EXPECT_THAT(said("["), HasSubstr("no JSON object"));
  EXPECT_THAT(said("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(said(""), HasSubstr("empty"));
  EXPECT_THAT(said("{}\n{"), HasSubstr("line 2"));
  EXPECT_THAT(said(R"({"points": []})"), HasSubstr("sweep"));
  for (const char* command : {"startup", "kernels", "timeline", "quality"}) {
    EXPECT_THAT(said(absl::StrCat(R"({"duration": 1, "command": ")", command, "\"}")),
                AllOf(HasSubstr(absl::StrCat("a result of ", command)),
                      HasSubstr("quire-bench report shows")));
  }
  for (const std::string& level : {std::string("["), std::string("{\"a\":")}) {
    std::string deep = "{\"duration\": 1, \"sampling\": ";
    for (int i = 0; i < 100000; ++i) deep += level;
    EXPECT_THAT(said(deep), HasSubstr("nested more than 64 deep"));
  }
  EXPECT_THAT(said(R"({"a": "[[[\"[{)" + std::string(100, '[') + "\"}\n{"), HasSubstr("line 2"));
  EXPECT_THAT(said(R"({"ttfts": 3})"), HasSubstr("\"ttfts\""));
  EXPECT_THAT(said(R"({"ttfts": [1, 2], "itls": [[]]})"), HasSubstr("\"itls\" is no list of 2"));
  EXPECT_THAT(std::string(ReadSavedRuns(folder + "/none.json").status().message()),
              HasSubstr("none.json: cannot be read: No such file"));
  std::ofstream(path)
      << R"({"ttfts": ["x", null], "itls": [3, ["y"]], "output_lens": [{}, -1], "duration": "z"})";
  EXPECT_TRUE(ReadSavedRuns(path).ok());  // nonsense within a list is nothing
  std::ofstream(path) << "{\"failed\": 1}\n\n{\"failed\": 2}\n";  // as --append-result writes them
  EXPECT_THAT(*ReadSavedRuns(path), SizeIs(2));
  std::filesystem::remove_all(folder);
}

TEST(FigureTest, AFileWithoutAnySaysWhichFilesHaveThem) {
  const auto check = [](const char* text) {
    return CheckHasFigures(MakeSavedRun("x.json", Json::parse(text)).value());
  };
  for (const char* text :
       {R"({"failed": 0})", R"({"p99.5_itl_ms": 3})", R"({"request_goodput": 2})"})
    EXPECT_TRUE(check(text).ok()) << text;
  for (const char* text : {"{}", R"({"failed": "0", "mean_ttft_ms": null, "seed": 5})"}) {
    const absl::Status status = check(text);
    EXPECT_EQ(ExitCodeOf(status), kNoInput);
    for (const char* part : {"x.json", "serve, throughput and latency", "vLLM", "startup, kernels"})
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(FigureTest, PercentilesAscend) {
  const SavedRun run =
      MakeSavedRun("x.json", Json::parse(R"({"p99_ttft_ms": 1, "p90_ttft_ms": 1, "mean_itl_ms": 1,
                                             "std_ttft_ms": 1, "median_ttft_ms": 1})"))
          .value();
  std::vector<std::string> names;
  for (const Figure& figure : FiguresOf({&run})) names.push_back(figure.name);
  EXPECT_THAT(names, ElementsAre("median_ttft_ms", "std_ttft_ms", "p90_ttft_ms", "p99_ttft_ms",
                                 "mean_itl_ms"));
}

TEST(FigureTest, NamesMeanWhatTheySay) {
  EXPECT_EQ(FigureNamed("p99.9_ttft").name, "p99.9_ttft_ms");
  EXPECT_EQ(FigureNamed("p99.9_ttft_ms").percent, 99.9);
  EXPECT_EQ(FigureNamed("median_client_queue_time_ms").metric, "client_queue_time");
  EXPECT_EQ(FigureNamed("std_itl_ms").statistic, Statistic::kDeviation);
  EXPECT_EQ(FigureNamed("output_throughput").better, 1);
  EXPECT_EQ(FigureNamed("mean_ttft_ms").better, -1);
  for (const char* other : {"p_ttft", "p101_ttft", "p99_itll", "ttft", "p99", "failed", ""}) {
    EXPECT_EQ(FigureNamed(other).kind, FigureKind::kStated) << other;
  }
}

TEST(CompareTest, FindsAChangeAndNoneWhereThereIsNone) {
  const std::vector<SavedRun> a = {Read(Saved(1, 1, 400))}, same = {Read(Saved(2, 1, 400))},
                              slow = {Read(Saved(2, 1.3, 400))};
  const ComparisonOptions options = {.more_figures = {"p90_e2el"}, .num_resamples = 500, .seed = 9};
  int num_clear = 0;
  for (const ComparedFigure& figure : Compare(a, same, options, nullptr)) {
    if (!figure.interval.has_value()) continue;
    EXPECT_LE(figure.interval->first, figure.interval->second);
    num_clear += figure.interval->first > 0 || figure.interval->second < 0 ? 1 : 0;
  }
  EXPECT_LE(num_clear, 3);
  const auto slower = Compare(a, slow, options, nullptr);
  for (const char* name : {"mean_ttft_ms", "median_itl_ms", "p90_e2el_ms", "mean_tpot_ms"}) {
    const ComparedFigure& figure = Named(slower, name);
    EXPECT_GT(figure.interval->first, 0.1) << name;
    EXPECT_LT(figure.interval->second, 0.6) << name;
  }
  EXPECT_EQ(Named(slower, "failed").why_no_interval, "it is of the run as a whole");
  EXPECT_THAT(ToText(slower), HasSubstr("worse"));
}

TEST(CompareTest, AtAGivenRateThroughputIsThatOfTheArrivals) {
  // The same arrivals, answered evenly or one in ten very late: each is answered in time to come.
  const auto read = [](int late_every, double seconds_apart) {
    Json json = {{"request_rate", 100}, {"request_throughput", 1 / seconds_apart}};
    for (int i = 0; i < 400; ++i) {
      const double start = i * seconds_apart;
      json["start_times"].push_back(start);
      json["ttfts"].push_back(i % late_every == 0 ? 0.5 : 0.01);
      json["itls"].push_back(Json::array());
      json["input_lens"].push_back(5);
      json["output_lens"].push_back(1);
      json["errors"].push_back("");
    }
    json["duration"] = 400 * seconds_apart;
    return Read(std::move(json));
  };
  const std::vector<SavedRun> even = {read(400, 0.01)}, uneven = {read(10, 0.01)},
                              fewer = {read(400, 0.0125)};
  const ComparisonOptions options = {.num_resamples = 500};
  const auto same = *Named(Compare(even, uneven, options, nullptr), "request_throughput").interval;
  EXPECT_GT(same.first, -0.15);
  EXPECT_LT(same.second, 0.15);
  EXPECT_LE(same.first, 0);
  EXPECT_GE(same.second, 0);
  const auto less = *Named(Compare(even, fewer, options, nullptr), "request_throughput").interval;
  EXPECT_GT(less.first, -0.35);
  EXPECT_LT(less.second, -0.1);
}

// Half a tenth slower is nothing beside how much requests differ, unless they are the same ones.
TEST(CompareTest, RequestsOfOneSeedAreDrawnTogether) {
  const auto read = [](double scale, int num_requests, const Json& seed) {
    Json json = Saved(1, scale, num_requests);
    json["seed"] = seed;
    return Read(std::move(json));
  };
  const std::vector<SavedRun> a = {read(1, 300, 7)}, slower = {read(1.05, 300, 7)},
                              other = {read(1.05, 300, 8)};
  const auto interval = [&a](const std::vector<SavedRun>& b) {
    const ComparisonOptions options = {.num_resamples = 300, .are_paired = ArePaired(a, b)};
    return *Named(Compare(a, b, options, nullptr), "mean_ttft_ms").interval;
  };
  const auto paired = interval(slower);
  EXPECT_GT(paired.first, 0.02);
  EXPECT_LT(paired.second, 0.08);
  const auto apart = interval(other);
  EXPECT_LT(apart.first, 0);
  EXPECT_GT(apart.second, 0.08);
  EXPECT_TRUE(ArePaired(a, slower));
  EXPECT_FALSE(ArePaired(a, other));
  EXPECT_FALSE(ArePaired(a, {read(1, 299, 7)}));
  EXPECT_FALSE(ArePaired(a, {a[0], a[0]}));
  EXPECT_FALSE(ArePaired({read(1, 300, nullptr)}, {read(1, 300, nullptr)}));
  std::vector<SavedRun> longer = slower;
  longer[0].requests[5].input_tokens += 1;
  EXPECT_FALSE(ArePaired(a, longer));
}

TEST(CompareTest, IsTheSameForTheSameSeed) {
  const std::vector<SavedRun> a = {Read(Saved(1, 1, 50))}, b = {Read(Saved(2, 1, 50))};
  const auto once = ToJson(Compare(a, b, {.num_resamples = 100, .seed = 5}, nullptr));
  EXPECT_EQ(once, ToJson(Compare(a, b, {.num_resamples = 100, .seed = 5}, nullptr)));
  EXPECT_NE(once, ToJson(Compare(a, b, {.num_resamples = 100, .seed = 6}, nullptr)));
}

TEST(CompareTest, RunsThatDifferMakeIntervalsWide) {
  // Between 1 and 1.6 times as long within one side: of one run each, the other side would be
  // clearly slower.
  const std::vector<SavedRun> b = {Read(Saved(5, 1.4, 300))};
  const std::vector<SavedRun> one = {Read(Saved(1, 1, 300))};
  const std::vector<SavedRun> three = {one[0], Read(Saved(2, 1.3, 300)), Read(Saved(3, 1.6, 300))};
  const ComparisonOptions options = {.num_resamples = 500};
  EXPECT_GT(Named(Compare(one, b, options, nullptr), "mean_ttft_ms").interval->first, 0);
  const auto interval = *Named(Compare(three, b, options, nullptr), "mean_ttft_ms").interval;
  EXPECT_LT(interval.first, 0);
  EXPECT_GT(interval.second, 0);
}

TEST(CompareTest, SaysWhyThereIsNoInterval) {
  Json bare = Saved(1, 1, 30);
  bare.erase("ttfts");
  const std::vector<SavedRun> a = {Read(Saved(2, 1, 30))}, b = {Read(bare, "bare.json")};
  const auto figures = Compare(a, b, {.num_resamples = 100}, nullptr);
  EXPECT_FALSE(Named(figures, "p99_ttft_ms").interval.has_value());
  EXPECT_TRUE(Named(figures, "p99_ttft_ms").change.has_value());
  EXPECT_THAT(ToText(figures), HasSubstr("no interval: bare.json has no requests"));
}

TEST(BoundTest, FailsOnlyBeyondDoubt) {
  ComparedFigure ttft = {.figure = FigureNamed("p99_ttft_ms"), .a = 100, .b = 110, .change = 0.1};
  ComparedFigure rate = {
      .figure = FigureNamed("output_throughput"), .a = 100, .b = 90, .change = -0.1};
  const auto fails = [&](const std::string& text) {
    return Judge(ParseBound(text).value(),
                 {ttft, rate, {.figure = FigureNamed("failed"), .a = 0, .b = 2}})
        .value()
        .fails;
  };
  EXPECT_TRUE(fails("p99_ttft>+5%"));  // without an interval
  EXPECT_FALSE(fails("p99_ttft_ms>+10.1%"));
  ttft.interval = {0.02, 0.2};
  EXPECT_TRUE(fails("p99_ttft>+5%"));
  ttft.interval = {-0.02, 0.2};
  EXPECT_FALSE(fails("p99_ttft>+5%"));
  EXPECT_TRUE(fails("p99_ttft>109"));
  EXPECT_FALSE(fails("p99_ttft>110"));
  EXPECT_TRUE(fails("output_throughput<-3%"));
  rate.interval = {-0.15, 0.01};
  EXPECT_FALSE(fails("output_throughput<-3%"));
  rate.interval = {-0.15, -0.01};
  EXPECT_TRUE(fails("output_throughput<-3%"));
  EXPECT_TRUE(fails("output_throughput<95"));
  EXPECT_TRUE(fails("failed>0"));
  EXPECT_TRUE(fails("failed>+50%"));  // of nothing
  EXPECT_EQ(ExitCodeOf(Judge(ParseBound("nothing>0").value(), {ttft}).status()), kNoInput);
  for (const char* wrong :
       {"", "p99_ttft", "p99_ttft>", "p99_ttft>x%", ">5%", "p99_ttft=5%", "p99_ttft>nan", "x>>5"}) {
    EXPECT_EQ(ExitCodeOf(ParseBound(wrong).status()), kUsage) << wrong;
  }
}

TEST(WorkloadCheckTest, NamesWhatDiffers) {
  const Json run = {{"backend", "quire"},
                    {"request_rate", 8.0},
                    {"workload", {{"input_len", 5}, {"output_len", 6}}}};
  EXPECT_THAT(DifferencesOf(Read(run), Read(run)), IsEmpty());
  Json other = run;
  other["request_rate"] = "inf";
  other["workload"]["output_len"] = 7;
  EXPECT_THAT(DifferencesOf(Read(run), Read(other, "b.json")),
              ElementsAre("not the same workload.output_len: 6 (a.json) and 7 (b.json)",
                          "not the same request_rate: 8.0 (a.json) and \"inf\" (b.json)"));
  Json cached = run, uncached = run;
  cached["total_input_tokens"] = uncached["total_input_tokens"] = 1000;
  cached["cached_input_tokens"] = 960;
  EXPECT_THAT(
      DifferencesOf(Read(uncached), Read(cached, "b.json")),
      ElementsAre("not the same percentage of prompt tokens found in a prefix cache: 0.0 "
                  "(a.json) and 96.0 (b.json); serve --flush-cache empties it before a load"));
  uncached["cached_input_tokens"] = 930;
  EXPECT_THAT(DifferencesOf(Read(uncached), Read(cached)), IsEmpty());
  other = run;
  other["workload"]["num_conversations"] = 4;  // that only one of them has
  const std::string sentence = "not the same workload.num_conversations: ";
  EXPECT_THAT(DifferencesOf(Read(run), Read(other, "b.json")),
              ElementsAre(sentence + "null (a.json) and 4 (b.json)"));
  EXPECT_THAT(DifferencesOf(Read(other), Read(run, "b.json")),
              ElementsAre(sentence + "4 (a.json) and null (b.json)"));
  other["workload"] = {{"dataset_name", "timed_trace"}, {"trace_speedup", 2}};
  Json random = run;
  random["workload"] = {{"dataset_name", "random"}, {"output_len", 6}};
  EXPECT_THAT(DifferencesOf(Read(random), Read(other, "b.json")),
              ElementsAre(HasSubstr("workload.dataset_name: \"random\" (a.json) and")));
  other = run;
  other.erase("backend");  // says nothing
  EXPECT_THAT(DifferencesOf(Read(run), Read(other)), IsEmpty());
  EXPECT_THAT(
      DifferencesOf(Read({{"total_input_tokens", 100}}), Read({{"total_input_tokens", 103}})),
      SizeIs(1));
}

TEST(WorkloadCheckTest, NamesWhatMakesARunDoubtful) {
  EXPECT_THAT(DoubtsOf(Read({{"failed", 0}, {"interrupted", false}})), IsEmpty());
  EXPECT_THAT(
      DoubtsOf(Read({{"failed", 3}, {"interrupted", true}, {"client", {{"cpu_share", 0.97}}}})),
      ElementsAre("a.json: 3 requests failed", "a.json: the run was interrupted",
                  "a.json: the client was the bottleneck, not the server alone"));
  Json foreign = {
      {"completed", 5}, {"uncounted", 4}, {"stopped", 2}, {"sampling", {{"ignore_eos", true}}}};
  EXPECT_THAT(DoubtsOf(Read(foreign)),
              ElementsAre(HasSubstr("nobody counted the tokens of 4 requests"),
                          HasSubstr("2 of 5 answers ended before they were as long")));
  foreign["uncounted"] = 0;
  foreign["sampling"]["ignore_eos"] = false;
  EXPECT_THAT(DoubtsOf(Read(foreign)), IsEmpty());
  foreign["sampling"] = 5;  // what files say is not trusted
  EXPECT_THAT(DoubtsOf(Read(foreign)), IsEmpty());
  EXPECT_THAT(DoubtsOf(Read(Saved(1, 1, 4))), ElementsAre(HasSubstr("of 4 requests rests on one")));
}

}  // namespace
}  // namespace quire::bench
