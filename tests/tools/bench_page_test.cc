// Pages of results: what axes and plots are made of, what a report shows of runs and sweeps, and
// that nothing of a file becomes markup.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tools/bench/report/heat_plot.h"
#include "tools/bench/report/plots/axis.h"
#include "tools/bench/report/plots/html.h"
#include "tools/bench/report/report_page.h"
#include "tools/bench/report/run_plots.h"
#include "tools/bench/report/sweep_plots.h"

namespace quire::bench {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kHostile[] = "</script><img src=x onerror=alert(1)>\"'&\x01\u202e\xff";

std::vector<std::string> Texts(const Axis& axis) {
  std::vector<std::string> texts;
  for (const auto& [value, text] : TicksOf(axis)) texts.push_back(text);
  return texts;
}

TEST(AxisTest, HasRoundTicks) {
  EXPECT_THAT(Texts(LinearAxis("", 3.3)), ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_THAT(Texts(LinearAxis("", 2500)),
              ElementsAre("0", "500", "1,000", "1,500", "2,000", "2,500"));
  EXPECT_THAT(Texts(LogAxis("", {3, 700})),
              ElementsAre("2", "5", "10", "20", "50", "100", "200", "500", "1,000"));
  EXPECT_THAT(Texts(LogAxis("", {0.5, 4000})),
              ElementsAre("1", "3", "10", "30", "100", "300", "1,000", "3,000"));
  EXPECT_THAT(Texts(NinesAxis("", 1000)), ElementsAre("p0", "p50", "p90", "p99", "p99.9"));
  for (const double nothing :
       {0.0, -1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    EXPECT_THAT(Texts(LinearAxis("", nothing)), Not(IsEmpty()));
    EXPECT_THAT(Texts(LogAxis("", {nothing})), Not(IsEmpty()));
  }
}

TEST(AxisTest, PlacesAreToScale) {
  EXPECT_DOUBLE_EQ(LinearAxis("", 10).Place(2.5), 0.25);
  EXPECT_DOUBLE_EQ(LogAxis("", {1, 100}).Place(10), 0.5);
  EXPECT_EQ(LogAxis("", {1, 100}).Place(0), 0);
  EXPECT_EQ(LogAxis("", {1, 100}).Place(1e9), 1);
  const Axis nines = NinesAxis("", 1000);
  EXPECT_THAT(nines.Place(90), DoubleNear(1.0 / 3, 1e-9));
  EXPECT_THAT(nines.Place(99), DoubleNear(2.0 / 3, 1e-9));
  EXPECT_EQ(nines.Place(100), 1);
}

TEST(HtmlTest, NumbersForPeople) {
  EXPECT_EQ(NumberText(0), "0");
  EXPECT_EQ(NumberText(0.00423), "0.0042");
  EXPECT_EQ(NumberText(0.5), "0.5");
  EXPECT_EQ(NumberText(12.345), "12.3");
  EXPECT_EQ(NumberText(1234567.8), "1,234,568");
  EXPECT_EQ(NumberText(-1234), "-1,234");
  EXPECT_EQ(NumberText(NAN), "–");
}

TEST(HtmlTest, NothingOfATextIsMarkup) {
  EXPECT_EQ(
      Escape(kHostile),
      "&#60;/script&#62;&#60;img src=x onerror=alert(1)&#62;&#34;&#39;&#38;\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Escape("größer\n"), "größer\n");
  const std::string html = ToHtml(Table{
      .caption = kHostile, .head = {kHostile, "x"}, .rows = {{kHostile}, {kHostile, kHostile}}});
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("&#60;img src=x\"")));
}

// Requests that start every 10 ms, with a token every 10 ms from 20 ms on.
Json Result(int num_requests) {
  Json json = {
      {"command", "serve"}, {"duration", 1.0}, {"output_throughput", 30.0}, {"mean_ttft_ms", 20.0}};
  for (int i = 0; i < num_requests; ++i) {
    json["ttfts"].push_back(0.02);
    json["itls"].push_back({0.01, 0.01});
    json["start_times"].push_back(0.01 * i);
    json["output_lens"].push_back(3);
  }
  return json;
}

NamedResult Read(const std::string& name, Json json) {
  return {.name = name, .colour = 1, .run = MakeSavedRun(name + ".json", std::move(json)).value()};
}

NamedResult Sweep(const std::string& name, Json json) {
  NamedResult sweep = {.name = name, .colour = 2, .kind = ResultKind::kSweep};
  sweep.run.json = std::move(json);
  return sweep;
}

Results Runs(const std::vector<NamedResult>& all) { return OfKind(all, ResultKind::kRun); }

TEST(RunPlotsTest, PercentilesAreThoseOfTheSamples) {
  Json json = Result(101);
  for (int i = 0; i < 101; ++i) json["ttfts"][i] = 0.001 * (i + 1);
  const std::vector<Plot> plots = PercentilePlots(Runs({Read("a", json)}));
  ASSERT_THAT(plots, SizeIs(4));
  EXPECT_EQ(plots[0].title, "Time to first token");
  const auto& rows = plots[0].table.rows;
  ASSERT_THAT(rows, SizeIs(10));
  EXPECT_EQ(rows[5][0].ToHtml() + " " + rows[5][1].ToHtml(), "p90 91");
  EXPECT_EQ(rows[9][0].ToHtml() + " " + rows[9][1].ToHtml(), "most 101");
  for (const auto& [percent, ms] : plots[0].series[0].points) EXPECT_NEAR(ms, 1 + percent, 1e-6);
  json.erase("ttfts");
  EXPECT_THAT(PercentilePlots(Runs({Read("a", json)})), IsEmpty());
  EXPECT_THAT(TimePlots(Runs({Read("a", json)})), IsEmpty());
}

TEST(RunPlotsTest, WhatCameWhenAddsUp) {
  const std::vector<Plot> plots = TimePlots(Runs({Read("a", Result(100))}));
  ASSERT_THAT(plots, SizeIs(3));
  const auto& rates = plots[0].series[0].points;
  ASSERT_GT(rates.size(), 2u);
  const double width = rates[1].first - rates[0].first;
  double tokens = 0, in_flight = 0;
  for (const auto& [time, rate] : rates) tokens += rate * width;
  EXPECT_NEAR(tokens, 300, 1e-6);
  for (const auto& [time, count] : plots[1].series[0].points) in_flight += count * width;
  EXPECT_NEAR(in_flight, 100 * 0.04, 1e-6);                    // of each its latency
  EXPECT_NEAR(plots[1].series[0].points[10].second, 4, 1e-6);  // in the middle
  EXPECT_THAT(plots[2].series[0].points, SizeIs(100));         // a dot for each
  EXPECT_LT(TimePlots(Runs({Read("b", Result(20000))}))[2].series[0].points.size(), 2000u);
}

// Every gap is in a cell at its time and length, and the table counts them again.
TEST(HeatPlotsTest, GapsAreWhereAndAsOftenAsTheyWere) {
  Json json = Result(100);
  json["itls"][99] = {0.01, 0.5};  // one step that took long, at the end
  const std::vector<Plot> plots =
      HeatPlots(Runs({Read("a", json), Read("none", Json{{"duration", 1}})}));
  ASSERT_THAT(plots, SizeIs(1));
  const Plot& plot = plots[0];
  EXPECT_NEAR(plot.x.max, 0.99 + 0.02 + 0.51, 1e-6);
  int num_short = 0, num_long = 0;
  double hottest = 0;
  for (const HeatCell& cell : plot.cells) {
    hottest = std::max(hottest, cell.heat);
    const bool is_short = cell.y_begin <= 10.001 && cell.y_end >= 9.999;
    const bool is_long = cell.y_begin <= 500.1 && cell.y_end >= 499.9;
    EXPECT_TRUE(is_short || is_long) << cell.text;
    num_short += is_short;
    num_long += is_long;
    if (is_long) {
      EXPECT_THAT(cell.text, HasSubstr(": 1 gap of "));
      EXPECT_NEAR(cell.x_end, plot.x.max, 1e-6);
    }
  }
  EXPECT_EQ(hottest, 1);
  EXPECT_EQ(num_long, 1);
  EXPECT_GT(num_short, 20);
  int64_t num_gaps = 0;
  for (const auto& row : plot.table.rows) num_gaps += std::stoi(row[1].ToHtml());
  EXPECT_EQ(num_gaps, 200);
  EXPECT_EQ(plot.table.rows.back().back().ToHtml(), "500");
  EXPECT_THAT(ToHtml(plot), HasSubstr("<rect class=\"heat\""));
}

Json SweepOf(const std::string& by) {
  Json json = {{"by", by}, {"saturation", {{"last_good", 2}, {"sentence", kHostile}}}};
  for (const double load : {4.0, 1.0, 2.0}) {
    json["points"].push_back({{"load", load},
                              {"output_throughput", 100 * load},
                              {"median_ttft_ms", 5},
                              {"p99_ttft_ms", 9},
                              {"verdict", kHostile}});
  }
  json["points"].push_back("nonsense");
  return json;
}

TEST(SweepPlotsTest, PointsAreInOrderAndTheEndIsMarked) {
  const std::vector<NamedResult> results = {Sweep("s", SweepOf("request-rate"))};
  const std::vector<Plot> plots = SweepPlots(OfKind(results, ResultKind::kSweep));
  ASSERT_THAT(plots, SizeIs(2));
  EXPECT_THAT(plots[0].series[0].points,
              ElementsAre(std::pair(1, 100), std::pair(2, 200), std::pair(4, 400)));
  EXPECT_EQ(plots[0].marks[0].x, 2);
  EXPECT_EQ(plots[1].marks[0].x, 200);
  EXPECT_THAT(plots[1].marks[0].text, HasSubstr("2 requests/s"));
  EXPECT_THAT(plots[1].series, SizeIs(2));
  EXPECT_THAT(SweepTable(Sweep("s", SweepOf("concurrency"))).rows, SizeIs(3));
}

TEST(ReportPageTest, ShowsEverythingAndTrustsNothing) {
  Json json = Result(30);
  json["failed"] = 2;
  json["problems"] = {{{"problem", kHostile}, {"count", 2}}, 5};
  json["machine"] = json["label"] = json["backend"] = kHostile;
  json["workload"] = {{kHostile, kHostile}};
  json["served"] = Json::array({kHostile});
  const std::string html = ReportPage({.title = kHostile,
                                       .results = {Read(kHostile, json), Read("plain", Result(5)),
                                                   Sweep(kHostile, SweepOf("concurrency"))}},
                                      nullptr);
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("\x01")));
  for (const char* part : {"Time to first token", "Requests in flight", "Output tokens per second",
                           "Points of the sweep", "What was run", "2 requests failed", "saturation",
                           "<svg", "Inter-token latency"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  for (const char* outside : {"http:", "https:", "src=\"", "@import"})
    EXPECT_THAT(html, Not(HasSubstr(outside)));
}

TEST(ReportPageTest, WhatARunDoesNotSayIsNoFigure) {
  const auto page = [](const Json& median_itl_ms) {
    Json json = Result(5);
    json["median_itl_ms"] = json["mean_itl_ms"] = median_itl_ms;
    json["itls"] = Json(5, Json::array());
    return ReportPage({.title = "x", .results = {Read("a", json)}}, nullptr);
  };
  EXPECT_THAT(page(10), HasSubstr("<b>10</b> ms between tokens"));
  EXPECT_THAT(page(10), HasSubstr("Inter-token latency"));
  EXPECT_THAT(page(nullptr), Not(HasSubstr("ms between tokens")));
  EXPECT_THAT(page(nullptr), Not(HasSubstr("Inter-token latency")));
}

// The figure's row of the table, from its name to the row's end.
std::string RowOf(const std::string& html, const std::string& group, const std::string& name) {
  const size_t begin = html.find(">" + name + "<", html.find(group));
  return html.substr(begin, html.find("</tr>", begin) - begin);
}

TEST(ReportPageTest, TheBestIsMarkedWhereCompareCallsItClear) {
  const auto run = [](double ttft) {
    Json json = Result(202);  // twice each of 101 times, in no order
    for (int i = 0; i < 202; ++i) json["ttfts"][i] = ttft + 0.0002 * (i * 37 % 101);
    json["mean_ttft_ms"] = 1000 * ttft + 10;
    return json;
  };
  const auto row = [](const std::vector<NamedResult>& results) {
    return RowOf(ReportPage({.title = "x", .results = results}, nullptr), "Time to first token, ms",
                 "mean");
  };
  const NamedResult a = Read("a", run(0.020)), close = Read("b", run(0.0201)),
                    slow = Read("c", run(0.060)), slower = Read("d", run(0.080));
  EXPECT_THAT(row({a, slow}), HasSubstr("<b>30</b>"));
  EXPECT_THAT(row({slow, a}), HasSubstr("<b>30</b>"));
  EXPECT_THAT(row({slower, a, slow}), HasSubstr("<b>30</b>"));
  // Which of the first two is the best is chance, though both are better than the third.
  EXPECT_THAT(row({a, close}), Not(HasSubstr("<b>")));
  EXPECT_THAT(row({a, close, slow}), Not(HasSubstr("<b>")));
  // Of numbers alone `compare` can tell nothing.
  Json bare = run(0.060);
  bare.erase("ttfts");
  EXPECT_THAT(row({a, Read("bare", bare)}), Not(HasSubstr("<b>")));
}

TEST(ReportPageTest, WaitingForAPlaceIsNoLatencyOfTheServer) {
  Json json = Result(5);
  json["mean_client_queue_time_ms"] = 123456;
  json["client"] = {{"cpu_share", 0.0254582272221}};
  for (const char* from : {"due", "sent"}) {
    json["latencies_from"] = from;
    const std::string html = ReportPage({.title = "x", .results = {Read("a", json)}}, nullptr);
    EXPECT_EQ(html.find("123,456") != std::string::npos, std::string(from) == "due");
    EXPECT_THAT(html, HasSubstr("cpu_share 0.025<"));
  }
}

}  // namespace
}  // namespace quire::bench
