#include "tools/bench/report/report_page.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/bench/report/heat_plot.h"
#include "tools/bench/report/html.h"
#include "tools/bench/results/figure.h"
#include "tools/bench/results/workload_check.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestFact = 300;

std::string Card(const std::string& html) {
  return absl::StrCat("<div class=\"card\">", html, "</div>\n");
}

std::string NameHtml(const std::string& name, size_t colour) {
  return absl::StrCat("<i class=\"swatch\" style=\"--shade:var(--shade-", colour, ")\"></i>",
                      Escape(name));
}

// "p99" of "p99_ttft_ms".
std::string StatisticText(const Figure& figure) {
  return figure.name.substr(0, figure.name.find('_'));
}

// "Request rate" of "request_rate".
std::string NameText(const std::string& key) {
  if (key == "request_throughput") return "Requests per second";
  if (key == "request_goodput") return "Good requests per second";
  if (key == "output_throughput") return "Output tokens per second";
  if (key == "total_token_throughput") return "Tokens per second in all";
  if (key == "duration") return "Seconds";
  if (key == "max_output_tokens_per_s") return "Most output tokens in a second";
  std::string text = key;
  std::replace(text.begin(), text.end(), '_', ' ');
  text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  return text;
}

// The values of a figure, the best of several in bold.
std::vector<Cell> ValueCells(const Figure& figure, const std::vector<NamedRun>& runs) {
  std::vector<std::optional<double>> values;
  std::optional<double> best;
  bool differ = false;
  for (const NamedRun& one : runs) {
    values.push_back(NumberAt(one.run.json, figure.name));
    if (!values.back().has_value()) continue;
    differ = differ || (best.has_value() && *best != *values.back());
    const bool is_better = !best.has_value() || figure.better * (*values.back() - *best) > 0;
    if (is_better) best = values.back();
  }
  std::vector<Cell> cells;
  for (const auto& value : values) {
    const std::string text = value.has_value() ? NumberText(*value) : "–";
    const bool is_best = value.has_value() && value == best && differ && figure.better != 0;
    cells.push_back(is_best ? Cell::OfHtml(absl::StrCat("<b>", text, "</b>")) : Cell(text));
  }
  return cells;
}

// The figures that `group_of` has a group for.
Table SummaryTable(const std::vector<NamedRun>& runs, const std::string& caption,
                   std::string (*group_of)(const Figure& figure)) {
  Table table = {.caption = caption, .head = {""}, .rows = {}};
  std::vector<SavedRun> saved;
  for (const NamedRun& one : runs) {
    table.head.push_back(Cell::OfHtml(NameHtml(one.name, one.colour)));
    saved.push_back(
        {.path = "", .json = one.run.json, .requests = {}, .why_no_requests = "", .goodput = {}});
  }
  // Where places alone decide when a request is sent, its wait for one is none of the server's.
  const bool have_queues = std::any_of(runs.begin(), runs.end(), [](const NamedRun& one) {
    return TextAt(one.run.json, "latencies_from") != "sent";
  });
  std::string group;
  std::vector<Figure> figures = FiguresOf(saved);
  std::stable_sort(figures.begin(), figures.end(), [](const Figure& a, const Figure& b) {
    return (a.kind == FigureKind::kRate) > (b.kind == FigureKind::kRate);
  });
  for (const Figure& figure : figures) {
    const std::string its_group = group_of(figure);
    if (its_group.empty() || (figure.metric == "client_queue_time" && !have_queues)) continue;
    if (group != its_group) table.rows.push_back({Cell(group = its_group)});
    std::vector<Cell> row = {figure.kind == FigureKind::kLatency ? StatisticText(figure)
                                                                 : NameText(figure.name)};
    for (Cell& cell : ValueCells(figure, runs)) row.push_back(std::move(cell));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string LatencyGroup(const Figure& figure) {
  return figure.kind == FigureKind::kLatency ? absl::StrCat(MetricText(figure.metric), ", ms") : "";
}

std::string OtherGroup(const Figure& figure) {
  if (figure.kind == FigureKind::kLatency) return "";
  return figure.kind == FigureKind::kRate ? "Throughput" : "Counts";
}

std::string Summary(const std::vector<NamedRun>& runs) {
  std::string html;
  for (const Table& table : {SummaryTable(runs, "Throughput and counts", OtherGroup),
                             SummaryTable(runs, "Latencies", LatencyGroup)}) {
    if (!table.rows.empty()) absl::StrAppend(&html, Card(ToHtml(table)));
  }
  constexpr size_t kMostInHalf = 4;  // that have room in half of the page
  return absl::StrCat("<div class=\"", runs.size() > kMostInHalf ? "" : "plots ", "tables\">", html,
                      "</div>\n");
}

std::string FactText(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (value.is_number_float()) text = NumberText(value.get<double>());
  if (value.is_object()) {
    text.clear();
    for (const auto& [key, member] : value.items()) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", key, " ", FactText(member));
      if (text.size() > kLongestFact) break;
    }
  }
  return text.size() > kLongestFact ? absl::StrCat(text.substr(0, kLongestFact), "…") : text;
}

// What every run is a case of; the rest of its members are figures, or in the plots.
constexpr const char* kFacts[] = {"label",
                                  "command",
                                  "version",
                                  "time",
                                  "date",
                                  "machine",
                                  "backend",
                                  "target",
                                  "served",
                                  "model",
                                  "model_id",
                                  "device",
                                  "dtype",
                                  "tokenizer_id",
                                  "workload",
                                  "request_rate",
                                  "burstiness",
                                  "ramp_up_strategy",
                                  "max_concurrency",
                                  "by",
                                  "num_prompts",
                                  "sampling",
                                  "extra_body",
                                  "goodput",
                                  "seed",
                                  "latencies_from",
                                  "interrupted",
                                  "client",
                                  "saturation"};

Table FactsTable(const ReportContents& contents) {
  Table table = {.caption = "What was run", .head = {""}, .rows = {}};
  std::vector<const Json*> all;
  for (const NamedRun& one : contents.runs) {
    table.head.push_back(Cell::OfHtml(NameHtml(one.name, one.colour)));
    all.push_back(&one.run.json);
  }
  for (const NamedSweep& one : contents.sweeps) {
    table.head.push_back(Cell::OfHtml(NameHtml(one.name, one.colour)));
    all.push_back(&one.json);
  }
  for (const char* key : kFacts) {
    const bool is_told = std::any_of(all.begin(), all.end(), [key](const Json* json) {
      return json->contains(key) && !(*json)[key].is_null();
    });
    if (!is_told) continue;
    std::vector<Cell> row = {NameText(key)};
    for (const Json* json : all) {
      row.push_back(json->contains(key) && !(*json)[key].is_null() ? FactText((*json)[key]) : "–");
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

std::string Notices(const std::vector<NamedRun>& runs) {
  std::string items;
  for (const NamedRun& one : runs) {
    for (const std::string& doubt : DoubtsOf(one.run))
      absl::StrAppend(&items, "<li>", Escape(doubt), "</li>\n");
    if (!one.run.why_no_requests.empty()) {
      absl::StrAppend(&items, "<li>", Escape(one.run.why_no_requests), ": it is in no plot</li>\n");
    }
    for (const Json& problem : one.run.json.value("problems", Json::array())) {
      absl::StrAppend(&items, "<li class=\"error\">", Escape(one.name), ": ",
                      Escape(TextAt(problem, "count")), " × ",
                      Escape(FactText(TextAt(problem, "problem"))), "</li>\n");
    }
  }
  return items.empty() ? "" : absl::StrCat("<ul class=\"notice\">\n", items, "</ul>\n");
}

// The first line of the page: the figures that most people look for.
std::string Headlines(const NamedRun& one) {
  constexpr std::pair<const char*, const char*> kHeadlines[] = {
      {"output_throughput", "output tokens/s"},
      {"request_throughput", "requests/s"},
      {"median_ttft_ms", "ms to the first token, median"},
      {"p99_ttft_ms", "ms to the first token, p99"},
      {"median_itl_ms", "ms between tokens, median"}};
  std::string items;
  for (const auto& [key, text] : kHeadlines) {
    const auto value = NumberAt(one.run.json, key);
    if (!value.has_value()) continue;
    absl::StrAppend(&items, "<li><b>", NumberText(*value), "</b> ", text, "</li>\n");
  }
  return items.empty() ? "" : absl::StrCat("<ul class=\"headlines\">\n", items, "</ul>\n");
}

}  // namespace

std::string ReportPage(const ReportContents& contents) {
  std::string body = Notices(contents.runs);
  if (contents.runs.size() == 1) absl::StrAppend(&body, Headlines(contents.runs[0]));
  for (const NamedSweep& sweep : contents.sweeps) {
    const std::string sentence = TextAt(sweep.json.value("saturation", Json()), "sentence");
    if (!sentence.empty()) {
      absl::StrAppend(&body, "<p class=\"verdict\">",
                      contents.sweeps.size() > 1 ? Escape(sweep.name) + ": " : "", Escape(sentence),
                      "</p>\n");
    }
  }
  absl::StrAppend(&body, Section("Throughput against latency", Plots(SweepPlots(contents.sweeps))));
  std::string points;
  for (const NamedSweep& sweep : contents.sweeps) {
    absl::StrAppend(&points, Card(absl::StrCat("<h3>", NameHtml(sweep.name, sweep.colour), "</h3>",
                                               ToHtml(SweepTable(sweep)))));
  }
  absl::StrAppend(&body, Section("Points of the sweep", points));
  if (!contents.runs.empty()) {
    absl::StrAppend(&body, Section("Summary", Summary(contents.runs)));
    absl::StrAppend(&body, Section("Latency by percentile", Plots(PercentilePlots(contents.runs))));
    absl::StrAppend(&body, Section("Over time", Plots(TimePlots(contents.runs))));
    absl::StrAppend(&body, Section("Steps", Plots(HeatPlots(contents.runs))));
  }
  absl::StrAppend(
      &body, Section("What was run", absl::StrCat("<div class=\"facts\">",
                                                  Card(ToHtml(FactsTable(contents))), "</div>\n")));
  return HtmlPage(contents.title, body);
}

}  // namespace quire::bench
