// The parts of the pages of results: a report's data, which of several runs is the best, and that
// no text of a file becomes markup. report_page_test.py tests what the page's scripts make of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tools/bench/kernels/op_table.h"
#include "tools/bench/report/report_data.h"
#include "tools/bench/report/result_page.h"
#include "tools/cli/counted.h"

namespace quire::bench {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "</script><img src=x onerror=alert(1)>\"'&\x01\u202e\x7f\xff\\u202e";

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
  return {.name = name, .run = MakeSavedRun(name + ".json", std::move(json)).value()};
}

TEST(ResultPageTest, NothingOfATextIsMarkup) {
  const std::string page = ResultPage(kHostile, {{"text", kHostile}, {kHostile, "größer\n"}});
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  for (const char* unwanted : {"\x01", "\x7f", "\xff", "\u202e"}) {
    EXPECT_THAT(page, Not(HasSubstr(unwanted)));
  }
  EXPECT_THAT(page, HasSubstr("<title>&#60;/script&#62;&#60;img src=x onerror=alert(1)&#62;&#34;"
                              "&#39;&#38;\uFFFD\uFFFD\uFFFD\uFFFD\\u202e</title>"));
  for (const char* outside : {"https:", "src=\"", "@import"})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  // The script reads exactly the data, except the bytes that are no text.
  const std::string begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  const Json data = Json::parse(page.substr(at, page.find("</script>", at) - at));
  EXPECT_EQ(data["text"],
            "</script><img src=x onerror=alert(1)>\"'&\uFFFD\uFFFD\uFFFD\uFFFD\\u202e");
  EXPECT_EQ(data.back(), "größer\n");
}

TEST(ReportDataTest, RunsHaveTheirRequests) {
  Json json = Result(3);
  json["failed"] = 2;
  json["ttfts"][1] = 0;  // no answer
  const Json data = ReportData({Read("a", json), Read("b", Json{{"duration", 1}})}, nullptr);
  const Json& run = data["results"][0];
  EXPECT_EQ(run["kind"], "run");
  EXPECT_EQ(run["json"]["failed"], 2);
  EXPECT_FALSE(run["json"].contains("ttfts"));  // once is enough
  const Json& requests = run["requests"];
  EXPECT_EQ(requests["start"], Json({0.0, 0.01, 0.02}));
  EXPECT_EQ(requests["first_token"][2], 0.04);
  EXPECT_EQ(requests["end"][0], 0.04);
  EXPECT_EQ(requests["ttft_ms"], Json({20.0, nullptr, 20.0}));
  EXPECT_EQ(requests["e2el_ms"], Json({40.0, nullptr, 40.0}));
  EXPECT_EQ(requests["tpot_ms"], Json({10.0, nullptr, 10.0}));
  EXPECT_EQ(requests["itl_ms"], Json({{10.0, 10.0}, Json::array(), {10.0, 10.0}}));
  EXPECT_EQ(requests["output_tokens"], Json({3.0, 3.0, 3.0}));
  EXPECT_THAT(run["doubts"].dump(), HasSubstr("2 requests failed"));
  EXPECT_FALSE(data["results"][1].contains("requests"));
  EXPECT_THAT(data["results"][1]["why_no_requests"].get<std::string>(),
              HasSubstr("has no requests of its own"));
  EXPECT_EQ(data["results"][1]["colour"], 1);
}

// The figure of the report, or null.
Json FigureOf(const std::vector<NamedResult>& results, const std::string& name) {
  const Json data = ReportData(results, nullptr);
  for (const Json& figure : data["figures"]) {
    if (figure["name"] == name) return figure;
  }
  return Json();
}

TEST(ReportDataTest, WhatARunDoesNotSayIsNoFigure) {
  Json json = Result(5);
  json["median_itl_ms"] = 10;
  const Json figure = FigureOf({Read("a", json)}, "median_itl_ms");
  EXPECT_EQ(figure["kind"], "latency");
  EXPECT_EQ(figure["metric"], "itl");
  json["median_itl_ms"] = nullptr;
  EXPECT_TRUE(FigureOf({Read("a", json)}, "median_itl_ms").is_null());
}

TEST(ReportDataTest, TheBestIsMarkedWhereCompareCallsItClear) {
  const auto run = [](double ttft) {
    Json json = Result(202);  // twice each of 101 times, in no order
    for (int i = 0; i < 202; ++i) json["ttfts"][i] = ttft + 0.0002 * (i * 37 % 101);
    json["mean_ttft_ms"] = 1000 * ttft + 10;
    return json;
  };
  const auto best = [](const std::vector<NamedResult>& results) {
    return FigureOf(results, "mean_ttft_ms").value("best", -1);
  };
  const NamedResult a = Read("a", run(0.020)), close = Read("b", run(0.0201)),
                    slow = Read("c", run(0.060)), slower = Read("d", run(0.080));
  EXPECT_EQ(best({a, slow}), 0);
  EXPECT_EQ(best({slow, a}), 1);
  EXPECT_EQ(best({slower, a, slow}), 1);
  // Which of the first two is the best is chance, though both are better than the third.
  EXPECT_EQ(best({a, close}), -1);
  EXPECT_EQ(best({a, close, slow}), -1);
  // `compare` can tell nothing about numbers without requests.
  Json bare = run(0.060);
  bare.erase("ttfts");
  EXPECT_EQ(best({a, Read("bare", bare)}), -1);
}

TEST(OpTableTest, AboveALimitThereIsNoShareOfIt) {
  EXPECT_EQ(ShareText(1.37), "-");
  EXPECT_EQ(ShareText(1), "1.000");
  EXPECT_EQ(ShareText(0.625), "0.625");
}

TEST(CountedTest, OneIsNotSeveral) {
  EXPECT_EQ(Counted(1, "file"), "1 file");
  EXPECT_EQ(Counted(0, "file"), "0 files");
  EXPECT_EQ(Counted(2, "request"), "2 requests");
}

}  // namespace
}  // namespace quire::bench
