#include "tools/bench/report/report_page.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/heat_plot.h"
#include "tools/bench/report/run_plots.h"
#include "tools/bench/report/run_summary.h"
#include "tools/bench/report/sections/kernels_section.h"
#include "tools/bench/report/sections/quality_section.h"
#include "tools/bench/report/sections/startup_section.h"
#include "tools/bench/report/sections/timeline_section.h"
#include "tools/bench/report/sections/turn_section.h"
#include "tools/bench/report/sweep_plots.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestFact = 300, kMostWords = 100;

std::string FactText(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (value.is_number_float()) text = NumberText(value.get<double>());
  if (value.is_array() && value.size() < kMostWords) {  // the words of a command line
    text.clear();
    for (const Json& member : value)
      absl::StrAppend(&text, text.empty() ? "" : " ", FactText(member));
  }
  if (value.is_object()) {
    text.clear();
    for (const auto& [key, member] : value.items()) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", key, " ", FactText(member));
      if (text.size() > kLongestFact) break;
    }
  }
  return ShortText(text);
}

// What every run is a case of; the rest of its members are figures, or in the plots.
constexpr const char* kFacts[] = {
    "label",           "command",    "version",      "time",         "date",
    "machine",         "backend",    "target",       "served",       "model",
    "model_id",        "device",     "dtype",        "server_flags", "title",
    "tokenizer_id",    "workload",   "request_rate", "burstiness",   "ramp_up_strategy",
    "max_concurrency", "by",         "num_prompts",  "iterations",   "batch_size",
    "input_len",       "output_len", "dataset_path", "num_items",    "compared_with",
    "sampling",        "extra_body", "goodput",      "seed",         "latencies_from",
    "interrupted",     "client",     "saturation"};

Table FactsTable(const std::vector<NamedResult>& results) {
  Results all;
  for (const NamedResult& one : results) all.push_back(&one);
  Table table = {.caption = "What was run", .head = NameHead(all), .rows = {}};
  for (const char* key : kFacts) {
    const bool is_told = std::any_of(all.begin(), all.end(), [key](const NamedResult* one) {
      return !MemberOf(one->json(), key).is_null();
    });
    if (!is_told) continue;
    std::vector<Cell> row = {NameText(key)};
    for (const NamedResult* one : all) {
      const Json& value = MemberOf(one->json(), key);
      row.emplace_back(value.is_null() ? "–" : FactText(value));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string Section(const std::string& title, const std::string& html) {
  return html.empty()
             ? ""
             : absl::StrCat("<section><h2>", Escape(title), "</h2>\n", html, "</section>\n");
}

std::string Plots(const std::vector<Plot>& plots) {
  std::string html;
  for (const Plot& plot : plots) absl::StrAppend(&html, ToHtml(plot));
  return html.empty() ? "" : absl::StrCat("<div class=\"plots\">", html, "</div>\n");
}

std::string Notices(const std::vector<NamedResult>& results) {
  std::string items = RunNotices(OfKind(results, ResultKind::kRun));
  for (const NamedResult& one : results) {
    if (one.kind == ResultKind::kRun || MemberOf(one.json(), "interrupted") != true) continue;
    absl::StrAppend(&items, "<li>", Escape(one.name),
                    " was interrupted: it has results so far</li>\n");
  }
  return items.empty() ? "" : absl::StrCat("<ul class=\"notice\">\n", items, "</ul>\n");
}

std::string Verdicts(const Results& sweeps) {
  std::string html;
  for (const NamedResult* sweep : sweeps) {
    const std::string sentence = TextAt(MemberOf(sweep->json(), "saturation"), "sentence");
    if (sentence.empty()) continue;
    absl::StrAppend(&html, "<p class=\"verdict\">",
                    sweeps.size() > 1 ? Escape(sweep->name) + ": " : "", Escape(sentence),
                    "</p>\n");
  }
  return html;
}

std::string SweepSections(const Results& sweeps) {
  std::string points;
  for (const NamedResult* sweep : sweeps) {
    absl::StrAppend(&points, CardHtml(absl::StrCat("<h3>", NameHtml(*sweep), "</h3>",
                                                   ToHtml(SweepTable(*sweep)))));
  }
  return absl::StrCat(Section("Throughput against latency", Plots(SweepPlots(sweeps))),
                      Section("Points of the sweep", points));
}

std::string RunSections(const Results& runs, Progress* progress) {
  if (runs.empty()) return "";
  return absl::StrCat(Section("Summary", RunSummary(runs, progress)),
                      Section("Latency by percentile", Plots(PercentilePlots(runs))),
                      Section("Conversations", TurnSection(runs)),
                      Section("Over time", Plots(TimePlots(runs))),
                      Section("Steps", Plots(HeatPlots(runs))));
}

}  // namespace

std::string ReportPage(const ReportContents& contents, Progress* progress) {
  const auto of_kind = [&](ResultKind kind) { return OfKind(contents.results, kind); };
  const Results runs = of_kind(ResultKind::kRun), sweeps = of_kind(ResultKind::kSweep);
  const std::string facts = absl::StrCat(
      "<div class=\"facts\">", CardHtml(ToHtml(FactsTable(contents.results))), "</div>\n");
  return HtmlPage(
      contents.title,
      absl::StrCat(Notices(contents.results), runs.size() == 1 ? RunHeadlines(*runs[0]) : "",
                   Verdicts(sweeps), SweepSections(sweeps), RunSections(runs, progress),
                   Section("Start", StartupSection(of_kind(ResultKind::kStartup))),
                   Section("Kernels", KernelsSection(of_kind(ResultKind::kKernels))),
                   Section("Timeline", TimelineSection(of_kind(ResultKind::kTimeline))),
                   Section("Quality", QualitySection(of_kind(ResultKind::kQuality))),
                   Section("What was run", facts)));
}

}  // namespace quire::bench
