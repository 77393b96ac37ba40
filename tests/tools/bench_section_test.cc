// The sections of a report: what a page says of starts, kernels, steps, answers and conversations,
// which rows of several results belong together, and that a file may have anything in any key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tools/bench/kernels/op_table.h"
#include "tools/bench/report/plots/bar_plot.h"
#include "tools/bench/report/report_page.h"
#include "tools/bench/report/run_summary.h"
#include "tools/bench/report/sections/kernels_section.h"
#include "tools/bench/report/sections/matched_rows.h"
#include "tools/bench/report/sections/quality_section.h"
#include "tools/bench/report/sections/startup_section.h"
#include "tools/bench/report/sections/timeline_section.h"
#include "tools/bench/report/sections/turn_section.h"
#include "tools/cli/counted.h"

namespace quire::bench {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kHostile[] = "</script><img src=x onerror=alert(1)>";

NamedResult Named(const std::string& name, Json json, size_t colour = 0) {
  NamedResult result = {.name = name, .colour = colour, .kind = KindOf(json), .run = {}};
  if (result.kind == ResultKind::kRun) {
    result.run = MakeSavedRun(name + ".json", std::move(json)).value();
  } else {
    result.run.json = std::move(json);
  }
  return result;
}

// The section of these results.
std::string Section(std::string (*section)(const Results&),
                    const std::vector<NamedResult>& results) {
  Results all;
  for (const NamedResult& one : results) all.push_back(&one);
  return section(all);
}

Json SummaryOf(double mean) {
  return {{"count", 2},  {"mean", mean},      {"min", mean - 1}, {"p50", mean},
          {"p90", mean}, {"p99", mean + 0.5}, {"max", mean + 1}};
}

Json Startup() {
  return {{"command", "startup"},
          {"server_flags", {"--model", "folder"}},
          {"interrupted", false},
          {"listening_ms", SummaryOf(80)},
          {"first_token_ms", SummaryOf(95)},
          {"stage_ms",
           {{"program", SummaryOf(25)}, {"device", SummaryOf(0)}, {"weights", SummaryOf(50)}}},
          {"starts",
           {{{"listening_ms", 79}, {"first_token_ms", 94.25}, {"stage_ms", {{"program", 25}}}},
            {{"listening_ms", 81}, {"first_token_ms", 96.75}, {"stage_ms", {{"program", 25}}}}}},
          {"idle_cpu_percent", 0.125},
          {"resident_bytes", 100 << 20}};
}

Json Operation(const std::string& op, const std::string& shape, int count, double us,
               double share) {
  return {{"op", op},     {"shape", shape}, {"count", count},         {"us", us},
          {"tb_s", 1.25}, {"tflops", 2.5},  {"limit_us", us * share}, {"share_of_limit", share}};
}

Json Kernels(double factor) {
  Json step = {{"title", "decode, batch 1"}, {"us", 200 * factor}, {"share_of_limit", 0.5}};
  step["operations"] = {Operation("linear", "1 x 512", 8, 10 * factor, 0.625),
                        Operation("sample", "1 x 2048", 1, 3 * factor, 0.25)};
  Json attention = Operation("native", "decode 4 x 1024", 1, 40 * factor, 0.75);
  attention["plan_us"] = 7.5;
  return {
      {"command", "kernels"},
      {"steps", {step}},
      {"attention", {attention}},
      {"attention_table",
       {{{"phase", "decode"},
         {"kv_dtype", "bfloat16"},
         {"head_dim", 64},
         {"num_seqs", 4},
         {"query_len", 1},
         {"seq_len", 512},
         {"us", {{"native", 20 * factor}, {"trtllm", 16 * factor}}},
         {"auto", "native"},
         {"auto_over_fastest", 1.25}}}},
      {"cascade",
       {{{"num_seqs", 16},
         {"prefix_len", 1024},
         {"rest_len", 256},
         {"plain_us", 300},
         {"cascade_us", 200 * factor},
         {"speedup", 1.5}}}},
      {"ragged",
       {{{"kv_dtype", "fp8_e4m3"},
         {"num_seqs", 1},
         {"query_len", 512},
         {"seq_len", 32768},
         {"paged_us", 700},
         {"ragged_us", 560 * factor},
         {"ragged_tflops", 480 / factor},
         {"speedup", 1.25}}}},
      {"skipped", {{{"name", "prefill of 9"}, {"needed_bytes", 3 << 29}, {"free_bytes", 1 << 29}}}},
      {"figures", {{"read_ceiling_tb_s", 3.75}, {"something_new", 12}}}};
}

Json Timeline() {
  return {{"command", "timeline"},
          {"title", "a device"},
          {"steps", 129},
          {"wall_us", 121500},
          {"busy_us", 118800},
          {"idle_share", 0.0225},
          {"tokens_per_s", 4245},
          {"period_us", SummaryOf(942)},
          {"gap_us", SummaryOf(22)},
          {"host_us", {{"schedule", SummaryOf(3)}, {"wait", SummaryOf(877)}}}};
}

Json Quality() {
  return {{"command", "quality"},
          {"failed", 2},
          {"unasked", 0},
          {"results",
           {{"sums", {{"exact_match", 0.875}, {"num_right", 7}}},
            {"total", {{"exact_match", 0.875}, {"perplexity", 12.5}, {"acc", 0.5}}}}},
          {"comparison", {{"num_compared", 8}, {"share_identical", 0.75}}}};
}

Json Conversations() {
  Json json = {{"command", "serve"}, {"output_throughput", 30}, {"mean_ttft_ms", 12}};
  json["turns"] = {{{"turn", 1}, {"completed", 6}, {"cached_share", 0}, {"median_ttft_ms", 16.5}},
                   {{"turn", 2},
                    {"completed", 5},
                    {"cached_share", 0.4375},
                    {"median_ttft_ms", 26},
                    {"p99_ttft_ms", 29.5}}};
  return json;
}

TEST(BarPlotTest, PartsFollowEachOtherAndRowsHaveTheirNumbers) {
  BarPlot plot = {.title = "<t>"};
  plot.rows = {{.name = "first <b>",
                .parts = {{.length = 25, .colour = "var(--shade-1)", .text = "one"},
                          {.length = -5, .colour = "red", .text = "less than nothing"},
                          {.length = 50, .colour = "blue", .label = "two", .text = "two & more"}},
                .end = "75 ms",
                .dots = {50}},
               {.parts = {{.length = 10, .colour = "red", .text = "three"}},
                .end = "10 ms",
                .belongs_to_last = true},
               {.name = "third", .end = "–"}};
  plot.x = AxisOfRows("ms", plot.rows, 100);
  const std::string html = ToHtml(plot);
  EXPECT_THAT(html, HasSubstr("--lanes:3"));
  EXPECT_THAT(html, HasSubstr("<rect x=\"0.00\" y=\"40.0\" width=\"250.00\""));
  EXPECT_THAT(html, HasSubstr("<rect x=\"250.00\" y=\"40.0\" width=\"500.00\""));
  EXPECT_THAT(html, HasSubstr("two &#38; more"));
  EXPECT_THAT(html, HasSubstr("M500.0 166.7h0"));  // the dot, in the middle of its row
  EXPECT_THAT(html, HasSubstr("M0 666.7H1000"));   // above the third row, which begins a group
  EXPECT_THAT(html, Not(HasSubstr("M0 333.3H1000")));
  EXPECT_THAT(html, Not(HasSubstr("less than nothing")));
  EXPECT_THAT(html, HasSubstr("<span>75 ms</span><span>10 ms</span><span>–</span>"));
  EXPECT_THAT(html, Not(HasSubstr("first <b>")));
}

TEST(StartupSectionTest, ShowsStagesMomentsAndEachStart) {
  const std::string html = Section(StartupSection, {Named("cold", Startup())});
  for (const char* part :
       {"program: 25 ms", "weights: 50 ms", "<span>75 ms</span>", "<span>80 ms</span>",
        "<span>95 ms</span>", "each start: 94.2, 96.8", "Idle, % of one core</th><td>0.12<",
        "Resident, MiB</th><td>100<", "stage device</th><td>2</td><td>0<",
        "until the first token</th><td>2</td><td>95</td><td>94<"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("device: ")));  // took no time: nothing to show of it
  EXPECT_THAT(Section(StartupSection, {}), IsEmpty());
  EXPECT_THAT(Section(StartupSection, {Named("a", Startup()), Named("b", Startup(), 1)}),
              HasSubstr("b: stages"));
}

TEST(MatchedRowsTest, RowsOfANameBelongTogether) {
  RowKind kind = {.name_of = [](const Json& row) { return TextAt(row, "op"); },
                  .length_of = [](const Json& row) { return NumberAt(row, "us"); },
                  .us_of = [](const Json& row) { return NumberAt(row, "us"); },
                  .text_of = [](const Json& row) { return TextAt(row, "us"); },
                  .axis = "us",
                  .note = "",
                  .columns = {{"us", "", "us"}}};
  const Json before = {{{"op", "a"}, {"us", 8}},
                       {{"op", "twice"}, {"us", 1}},
                       5,
                       {{"op", "twice"}, {"us", 2}},
                       {{"op", "gone"}, {"us", 3}}};
  const Json after = {{{"op", "new"}, {"us", 4}},
                      {{"op", "twice"}, {"us", 1}},
                      {{"op", "twice"}, {"us", 0.5}},
                      {{"op", "a"}, {"us", 0}}};
  const std::vector<MatchedRow> rows = MatchRows(kind, {&before, &after});
  std::vector<std::string> texts;
  for (const MatchedRow& row : rows) {
    texts.push_back(
        absl::StrCat(row.name, " ", TextAt(*row.rows[0], "us"), " ", TextAt(*row.rows[1], "us")));
  }
  EXPECT_THAT(texts, ElementsAre("a 8 0", "twice 1 1", "twice 2 0.5", "gone 3 ", "new  4"));
  const std::vector<NamedResult> results = {Named("x", Kernels(1)), Named("y", Kernels(1), 1)};
  const Table table = MatchedTable("t", kind, {&results[0], &results[1]}, rows);
  std::vector<std::string> speed_ups;
  for (const auto& row : table.rows) {
    ASSERT_THAT(row, SizeIs(4));  // name, us of x, times as fast, us of y
    speed_ups.push_back(row[2].ToHtml());
  }
  EXPECT_THAT(speed_ups, ElementsAre("–", "1.00×", "4.00×", "–", "–"));
}

TEST(KernelsSectionTest, OneResultHasEverythingOfItsLists) {
  const std::string html = Section(KernelsSection, {Named("a", Kernels(1))});
  for (const char* part :
       {"Reads at most, TB/s</th><td>3.75<", "Something new</th><td>12<", "decode, batch 1",
        "in all 200 us, 50 % of the limit", "<span>8 × 10 us</span><span>3 us</span>",
        "linear 1 x 512: 8 × 10 us; 62.5 % of the limit", "native decode 4 x 1024: 40 us; 75 %",
        "<td>7.5</td>", "bfloat16, heads of 64, decode 4 x 512: native, 20 us; 80 % of the fastest",
        "trtllm, us", "16 x (1024 shared + 256): 300 → 200 us; 1.5 times as fast",
        "fp8_e4m3, 1 x 512 of 32768: 700 → 560 us; 1.25 times as fast", "ragged, TFLOP/s",
        "a: skipped prefill of 9, which needs 1.5 GiB; 0.5 were free"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("times as fast</th><th")));
}

TEST(KernelsSectionTest, AboveALimitThereIsNoShareOfIt) {
  Json json = Kernels(1);
  json["steps"][0]["share_of_limit"] = json["steps"][0]["operations"][0]["share_of_limit"] = 1.37;
  json["figures"]["decode_attn_read_ratio"] = 1.02;
  const std::string html = Section(KernelsSection, {Named("a", json)});
  for (const char* part :
       {"in all 200 us, –", "linear 1 x 512</th><td>8</td><td>10</td><td>6.25</td><td>–</td>",
        "Decode attention&#39;s reads, of the most</th><td>–</td>"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("137")));
  EXPECT_EQ(ShareText(1.37), "-");
  EXPECT_EQ(ShareText(1), "1.000");
  EXPECT_EQ(ShareText(0.625), "0.625");
}

TEST(CountedTest, OneIsNotSeveral) {
  EXPECT_EQ(Counted(1, "file"), "1 file");
  EXPECT_EQ(Counted(0, "file"), "0 files");
  EXPECT_EQ(Counted(2, "request"), "2 requests");
}

TEST(KernelsSectionTest, SeveralResultsHaveSpeedUps) {
  const std::string html =
      Section(KernelsSection, {Named("before", Kernels(1)), Named("after", Kernels(0.8), 1)});
  for (const char* part :
       {"<span>8 × 10 us</span><span>8 × 8 us, 1.25×</span>",
        "after, linear 1 x 512: 8 × 8 us, 1.25×", "after: times as fast",
        "before: in all 200 us, 50 % of the limit; after: in all 160 us", "<td>1.25×</td>"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(TimelineSectionTest, HasTheNumbersOfItsOwnPage) {
  const std::string html = Section(TimelineSection, {Named("a", Timeline())});
  for (const char* part :
       {"Tokens per second</th><td>4,245<", "Device busy, %</th><td>97.8<",
        "Device idle between steps, %</th><td>2.25<", "Step, median, us</th><td>942<",
        "idle before the step: 22 us", "step: 920 us", "schedule: 3 us", "<span>880 us</span>",
        "host: wait</th><td>2</td><td>877<", "device: gap before it"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(QualitySectionTest, ScoresAreSideBySide) {
  const std::string html =
      Section(QualitySection, {Named("a", Quality()), Named("b", Json{{"command", "quality"}}, 1)});
  for (const char* part :
       {"Exact match, %</th><td>87.5</td><td>–<", "Perplexity</th><td>12.5<", "Failed</th><td>2<",
        "a, sums, exact_match: 87.5 %", "Share identical, %</th><td>75<", "a, total, acc: 50 %"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(TurnSectionTest, HasARowForEachTurn) {
  Json single = Conversations();
  single["turns"].erase(1);
  const std::string html =
      Section(TurnSection, {Named("a", Conversations()), Named("single", single, 1)});
  for (const char* part :
       {"<span>16.5 ms, 0 % cached</span><span>26 ms, 43.8 % cached</span>",
        "a, turn 2: 26 ms, 43.8 % cached; p99 29.5 ms", "turn 1</th><td>6</td><td>–<"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("single")));
  EXPECT_THAT(Section(TurnSection, {Named("single", single)}), IsEmpty());
}

TEST(RunSummaryTest, LosesNothingThatThroughputAndLatencyTell) {
  const Json latency = {{"command", "latency"},      {"output_throughput", 30},
                        {"p99_ttft_ms", 9},          {"p90_ttft_ms", 8},
                        {"decode_tokens_per_s", 77}, {"batch_ms", SummaryOf(43.5)}};
  const Json throughput = {{"command", "throughput"},
                           {"output_throughput", 30},
                           {"steps", 55},
                           {"preemptions", 3},
                           {"stopped", 4},
                           {"unfinished", 0}};
  const std::string html = Section([](const Results& runs) { return RunSummary(runs, nullptr); },
                                   {Named("a", latency), Named("b", throughput, 1)});
  for (const char* part :
       {"Whole batch, ms", "mean</th><td>43.5</td><td>–<", "max</th><td>44.5<",
        "Decoded tokens per second, median</th><td>77<", "Steps</th><td>–</td><td>55<",
        "Preemptions</th><td>–</td><td>3<", "Stopped</th><td>–</td><td>4<"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("Unfinished")));
  EXPECT_LT(html.find(">p90<"), html.find(">p99<"));
}

// Every value of every kind of result in turn is of another type, or beyond all bounds.
TEST(ReportPageTest, AFileMayHaveAnythingInAnyKey) {
  Json table = Json::parse(R"([null, true, -1, 0, 1e308, 1e-310, [], {}, [[1]], {"mean": []}])");
  table.push_back(kHostile);
  Json serve = Conversations();
  serve["command"] = "latency";
  serve["batch_ms"] = SummaryOf(1);
  int num_pages = 0;
  for (const Json& whole :
       {Startup(), Kernels(1), Timeline(), Quality(), serve,
        Json{{"command", "sweep"}, {"points", {{{"load", 1}, {"output_throughput", 3}}}}}}) {
    std::vector<Json::json_pointer> places;
    const auto visit = [&](const auto& self, const Json& value, const Json::json_pointer& place) {
      if (!place.empty()) places.push_back(place);
      if (!value.is_structured()) return;
      for (const auto& [key, member] : value.items()) {
        self(self, member, value.is_array() ? place / std::stoul(key) : place / key);
      }
    };
    visit(visit, whole, Json::json_pointer());
    for (const Json::json_pointer& place : places) {
      for (const Json& wrong : table) {
        Json json = whole;
        json[place] = wrong;
        const std::string html = ReportPage(
            {.title = "x", .results = {Named("wrong", json), Named("right", whole, 1)}}, nullptr);
        ASSERT_THAT(html, HasSubstr("What was run"));
        ASSERT_EQ(html.find("<img"), std::string::npos) << place.to_string();
        ++num_pages;
      }
    }
  }
  EXPECT_GT(num_pages, 1000);
}

TEST(ReportPageTest, NamesAndKeysOfFilesAreText) {
  Json startup = Startup(), kernels = Kernels(1), timeline = Timeline(), quality = Quality();
  startup["stage_ms"][kHostile] = SummaryOf(5);
  kernels["steps"][0]["title"] = kernels["steps"][0]["operations"][0]["op"] = kHostile;
  kernels["attention_table"][0]["us"][kHostile] = 5;
  kernels["figures"][kHostile] = 5;
  kernels["skipped"][0]["name"] = kHostile;
  kernels["interrupted"] = true;
  timeline["host_us"][kHostile] = SummaryOf(5);
  quality["results"][kHostile] = {{kHostile, 5}, {"acc", 0.5}};
  const std::string html = ReportPage(
      {.title = "x",
       .results = {Named(kHostile, startup), Named("k", kernels, 1), Named("k2", kernels, 2),
                   Named("t", timeline, 3), Named("q", quality, 4)}},
      nullptr);
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("k was interrupted"));
}

}  // namespace
}  // namespace quire::bench
