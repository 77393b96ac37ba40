#include "tools/bench/report/sections/named_result.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/bench/report/plots/plot.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStatistics[] = {"count", "mean", "min", "p50", "p90", "p99", "max"};

}  // namespace

Results OfKind(const std::vector<NamedResult>& all, ResultKind kind) {
  Results some;
  for (const NamedResult& one : all) {
    if (one.kind == kind) some.push_back(&one);
  }
  return some;
}

std::string NameHtml(const NamedResult& one) {
  return absl::StrCat("<i class=\"swatch\" style=\"--shade:", ShadeOf(one.colour), "\"></i>",
                      Escape(one.name));
}

std::vector<Cell> NameHead(const Results& results) {
  std::vector<Cell> head = {""};
  for (const NamedResult* one : results) head.push_back(Cell::OfHtml(NameHtml(*one)));
  return head;
}

std::string NameText(const std::string& key) {
  if (key == "request_throughput") return "Requests per second";
  if (key == "request_goodput") return "Good requests per second";
  if (key == "output_throughput") return "Output tokens per second";
  if (key == "total_token_throughput") return "Tokens per second in all";
  if (key == "duration") return "Seconds";
  if (key == "decode_tokens_per_s") return "Decoded tokens per second, median";
  if (key == "max_output_tokens_per_s") return "Most output tokens in a second";
  std::string text = key;
  std::replace(text.begin(), text.end(), '_', ' ');
  text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  return text;
}

std::string ShortText(const std::string& text) {
  constexpr size_t kLongest = 300;
  return text.size() > kLongest ? absl::StrCat(text.substr(0, kLongest), "…") : text;
}

std::string ValueText(const std::optional<double>& value) {
  return value.has_value() ? NumberText(*value) : "–";
}

std::vector<Cell> ValueRow(const std::string& name, const Results& results,
                           const std::string& object, const std::string& key, double factor) {
  std::vector<Cell> row = {name};
  for (const NamedResult* one : results) {
    const auto value = NumberAt(object.empty() ? one->json() : MemberOf(one->json(), object), key);
    row.emplace_back(value.has_value() ? NumberText(factor * *value) : "–");
  }
  return row;
}

std::string WithUnit(const std::optional<double>& value, const std::string& unit) {
  return value.has_value() ? absl::StrCat(NumberText(*value), " ", unit) : "–";
}

std::vector<Cell> SummaryHead(const std::string& what) {
  return {what, "samples", "mean", "least", "p50", "p90", "p99", "most"};
}

std::vector<Cell> SummaryRow(const std::string& name, const Json& summary) {
  std::vector<Cell> row = {name};
  for (const char* statistic : kStatistics)
    row.emplace_back(ValueText(NumberAt(summary, statistic)));
  return row;
}

std::string CardHtml(const std::string& html) {
  return absl::StrCat("<div class=\"card\">", html, "</div>\n");
}

std::string BesideHtml(const Results& results, const std::string& left, const std::string& right) {
  constexpr size_t kMostInHalf = 3;
  return absl::StrCat("<div class=\"", results.size() > kMostInHalf ? "stack" : "plots",
                      " tables\">", left, right, "</div>\n");
}

}  // namespace quire::bench
