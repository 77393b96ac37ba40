#include "tools/bench/report/sections/quality_section.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/bench/report/plots/bar_plot.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

// Keys of the member `object` of any of the documents, each once.
std::vector<std::string> KeysOf(const std::vector<const Json*>& objects) {
  std::vector<std::string> keys;
  for (const Json* object : objects) {
    if (!object->is_object()) continue;
    for (const auto& [key, value] : object->items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

// What of several is right, as a share of them.
bool IsShare(const std::string& metric) {
  return metric == "exact_match" || metric == "acc" || metric == "acc_norm" ||
         absl::StartsWith(metric, "share_");
}

std::string MetricName(const std::string& metric) {
  return absl::StrCat(NameText(metric), IsShare(metric) ? ", %" : "");
}

void AddRows(const std::string& group, const std::vector<const Json*>& scores, Table* table) {
  const std::vector<std::string> metrics = KeysOf(scores);
  if (metrics.empty()) return;
  table->rows.push_back({Cell(group)});
  for (const std::string& metric : metrics) {
    std::vector<Cell> row = {MetricName(metric)};
    for (const Json* score : scores) {
      const auto value = NumberAt(*score, metric);
      row.emplace_back(value.has_value() ? NumberText(*value * (IsShare(metric) ? 100 : 1)) : "–");
    }
    table->rows.push_back(std::move(row));
  }
}

void AddBars(const Results& results, const std::string& task,
             const std::vector<const Json*>& scores, BarPlot* plot) {
  for (const char* metric : {"exact_match", "acc"}) {
    bool is_first = true;
    for (size_t i = 0; i < results.size(); ++i) {
      const auto share = NumberAt(*scores[i], metric);
      if (!share.has_value()) continue;
      const std::string text = WithUnit(100 * *share, "%");
      plot->rows.push_back({.name = is_first ? absl::StrCat(task, ", ", metric) : "",
                            .parts = {{.length = 100 * *share,
                                       .colour = ShadeOf(results[i]->colour),
                                       .text = absl::StrCat(results[i]->name, ", ", task, ", ",
                                                            metric, ": ", text)}},
                            .end = text,
                            .belongs_to_last = !is_first});
      is_first = false;
    }
  }
}

}  // namespace

std::string QualitySection(const Results& results) {
  if (results.empty()) return "";
  Table table = {.caption = "Scores", .head = NameHead(results), .rows = {}};
  table.rows.push_back(ValueRow("Failed", results, "", "failed"));
  table.rows.push_back(ValueRow("Not asked", results, "", "unasked"));
  BarPlot plot = {.title = "What is right"};
  std::vector<const Json*> all, compared;
  for (const NamedResult* one : results) {
    all.push_back(&MemberOf(one->json(), "results"));
    compared.push_back(&MemberOf(one->json(), "comparison"));
  }
  for (const std::string& task : KeysOf(all)) {
    std::vector<const Json*> scores;
    scores.reserve(all.size());
    for (const Json* one : all) scores.push_back(&MemberOf(*one, task));
    AddRows(task, scores, &table);
    AddBars(results, task, scores, &plot);
  }
  AddRows("Compared with recorded answers", compared, &table);
  std::string html = CardHtml(ToHtml(table));
  if (plot.rows.empty()) return html;
  for (const NamedResult* one : results) plot.legend.emplace_back(ShadeOf(one->colour), one->name);
  plot.x = AxisOfRows("%", plot.rows, 100);
  plot.table = std::move(table);
  return BesideHtml(results, html, ToHtml(plot));
}

}  // namespace quire::bench
