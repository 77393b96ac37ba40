// The results of a page, each with a name and a colour of its own, and what their sections share.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/bench/report/plots/html.h"
#include "tools/bench/results/saved_run.h"

namespace quire::bench {

struct NamedResult {
  std::string name;
  size_t colour = 0;
  ResultKind kind = ResultKind::kRun;
  SavedRun run = {};  // of other kinds only its path and its JSON

  const nlohmann::ordered_json& json() const { return run.json; }
};

// They lie in another list.
using Results = std::vector<const NamedResult*>;
Results OfKind(const std::vector<NamedResult>& all, ResultKind kind);

// With a swatch of its colour.
std::string NameHtml(const NamedResult& one);
// An empty cell, then the results' names.
std::vector<Cell> NameHead(const Results& results);

// "Request rate" of "request_rate".
std::string NameText(const std::string& key);

// Cut where it is too long for a page.
std::string ShortText(const std::string& text);

// "–" where there is none.
std::string ValueText(const std::optional<double>& value);
// A row of `key` in each result's `object` of its JSON, or of the JSON itself if that is empty.
std::vector<Cell> ValueRow(const std::string& name, const Results& results,
                           const std::string& object, const std::string& key, double factor = 1);
// "12.3 ms", or "–".
std::string WithUnit(const std::optional<double>& value, const std::string& unit);

// The columns of summaries, as ToJson(Summary) names them, and a row of one.
std::vector<Cell> SummaryHead(const std::string& what);
std::vector<Cell> SummaryRow(const std::string& name, const nlohmann::ordered_json& summary);

std::string CardHtml(const std::string& html);
// Two cards or plots, beside each other where a table of so many results has room in half a page.
std::string BesideHtml(const Results& results, const std::string& left, const std::string& right);

}  // namespace quire::bench
