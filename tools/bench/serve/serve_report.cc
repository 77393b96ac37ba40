#include "tools/bench/serve/serve_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/run_header.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

constexpr size_t kMaxProblems = 8;  // that are told apart

// A request that completed, or had got tokens when it was cancelled.
void AddSamples(const RequestRecord& record, const ReportOptions& options, ServeReport* report) {
  const double begin = record.begin(options.from_due);
  report->prompt_tokens += record.prompt_tokens;
  report->cached_tokens += record.cached_tokens;
  report->ttft_ms.push_back(1000 * (record.first_token - begin));
  report->client_queue_time_ms.push_back(1000 * (record.sent - record.scheduled));
  report->itl_ms.insert(report->itl_ms.end(), record.itl_ms.begin(), record.itl_ms.end());
  report->num_pieces += 1 + static_cast<int64_t>(record.itl_ms.size());
  if (record.outcome != Outcome::kCompleted) {
    report->output_tokens += record.num_tokens;
    return;
  }
  report->output_tokens += record.completion_tokens;
  report->e2el_ms.push_back(1000 * (record.ended - begin));
  double tpot_ms = 0;
  if (record.completion_tokens > 1 && !record.itl_ms.empty()) {
    tpot_ms = 1000 * (record.last_token - record.first_token) /
              static_cast<double>(record.completion_tokens - 1);
    report->tpot_ms.push_back(tpot_ms);
  }
  const bool is_good =
      KeepsBounds(options.goodput, report->ttft_ms.back(), tpot_ms, report->e2el_ms.back());
  report->num_good += is_good ? 1 : 0;
}

// Tokens that came within one second of the run's clock.
int64_t MostTokensInASecond(const std::vector<RequestRecord>& records) {
  std::map<int64_t, double> tokens;
  for (const RequestRecord& record : records) {
    if (!record.got_tokens()) continue;
    const double per_piece =
        static_cast<double>(record.num_tokens) / static_cast<double>(1 + record.itl_ms.size());
    double time = record.first_token;
    tokens[static_cast<int64_t>(time)] += per_piece;
    for (const float gap_ms : record.itl_ms) {
      time += gap_ms / 1000.0;
      tokens[static_cast<int64_t>(time)] += per_piece;
    }
  }
  double most = 0;
  for (const auto& [second, count] : tokens) most = std::max(most, count);
  return std::llround(most);
}

double PerSecond(int64_t count, const ServeReport& report) {
  return static_cast<double>(count) / (report.seconds > 0 ? report.seconds : 1);
}

const std::vector<double>& SamplesOf(const ServeReport& report, const std::string& metric) {
  if (metric == "ttft") return report.ttft_ms;
  if (metric == "tpot") return report.tpot_ms;
  if (metric == "itl") return report.itl_ms;
  return metric == "e2el" ? report.e2el_ms : report.client_queue_time_ms;
}

const char* LabelOf(const std::string& metric) {
  if (metric == "ttft") return "time to first token";
  if (metric == "tpot") return "time per output token";
  if (metric == "itl") return "inter-token latency";
  return metric == "e2el" ? "end to end" : "queued in the client";
}

// By Outcome: its name in the file, and how often it came.
struct OutcomeKind {
  const char* name;
  int64_t ServeReport::*count;
};
constexpr OutcomeKind kOutcomes[] = {
    {"unsent", &ServeReport::num_unsent},       {"completed", &ServeReport::num_completed},
    {"failed", &ServeReport::num_failed},       {"unfinished", &ServeReport::num_interrupted},
    {"abandoned", &ServeReport::num_abandoned}, {"timed_out", &ServeReport::num_timed_out}};

const OutcomeKind& OutcomeKindOf(Outcome outcome) {
  return kOutcomes[static_cast<size_t>(outcome)];
}

void CountProblem(const std::string& problem, ServeReport* report) {
  if (report->problems.empty()) report->first_problem = problem;
  for (auto& [text, count] : report->problems) {
    if (text != problem) continue;
    ++count;
    return;
  }
  if (report->problems.size() < kMaxProblems) report->problems.emplace_back(problem, 1);
}

}  // namespace

bool KeepsBounds(const GoodputBounds& bounds, double ttft_ms, double tpot_ms, double e2el_ms) {
  return std::all_of(bounds.begin(), bounds.end(), [&](const auto& bound) {
    const auto& [metric, most_ms] = bound;
    return (metric == "ttft" ? ttft_ms : metric == "tpot" ? tpot_ms : e2el_ms) <= most_ms;
  });
}

absl::StatusOr<GoodputBounds> ParseGoodput(const std::vector<std::string>& bounds) {
  GoodputBounds parsed;
  for (const std::string& bound : bounds) {
    const size_t colon = bound.find(':');
    const std::string metric = bound.substr(0, colon);
    double ms = 0;
    const bool is_known = metric == "ttft" || metric == "tpot" || metric == "e2el";
    if (!is_known || colon == std::string::npos ||
        !absl::SimpleAtod(bound.substr(colon + 1), &ms) || !(ms > 0)) {
      return UsageError(
          absl::StrCat("--goodput: \"", bound, "\" is not ttft:MS, tpot:MS or e2el:MS"));
    }
    parsed.emplace_back(metric, ms);
  }
  return parsed;
}

ServeReport MakeServeReport(const LoadResult& result, const ReportOptions& options) {
  ServeReport report;
  double begin = 0, end = 0;
  bool has_begun = false;
  for (const RequestRecord& record : result.records) {
    ++(report.*OutcomeKindOf(record.outcome).count);
    if (record.outcome == Outcome::kUnsent) continue;
    const double its_begin = record.begin(options.from_due);
    begin = has_begun ? std::min(begin, its_begin) : its_begin;
    has_begun = true;
    end = std::max(end, record.ended);
    if (record.outcome == Outcome::kFailed) {
      CountProblem(record.problem, &report);
      continue;
    }
    if (record.outcome == Outcome::kCompleted) {
      report.num_uncounted += record.is_counted && record.prompt_tokens > 0 ? 0 : 1;
      report.num_stopped += record.has_stopped ? 1 : 0;
    }
    if (record.got_tokens()) AddSamples(record, options, &report);
  }
  report.seconds = end - begin;
  report.max_output_tokens_per_s = MostTokensInASecond(result.records);
  std::stable_sort(report.problems.begin(), report.problems.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return report;
}

void AddLatencies(const std::string& metric, std::vector<double> samples,
                  const std::vector<double>& percentiles, nlohmann::ordered_json* json) {
  const Distribution all(std::move(samples));
  const auto add = [&](const std::string& statistic, double value) {
    (*json)[absl::StrCat(statistic, "_", metric, "_ms")] =
        all.count() > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  add("mean", all.Mean());
  add("median", all.Percentile(50));
  add("std", all.StandardDeviation());
  for (const double percent : percentiles) add(absl::StrCat("p", percent), all.Percentile(percent));
}

nlohmann::ordered_json ToJson(const ServeReport& report, const ClientEffort& effort,
                              const ReportOptions& options) {
  nlohmann::ordered_json json = {
      {"duration", report.seconds},
      {"uncounted", report.num_uncounted},
      {"stopped", report.num_stopped},
      {"total_input_tokens", report.prompt_tokens},
      {"cached_input_tokens", report.cached_tokens},
      {"total_output_tokens", report.output_tokens},
      {"request_throughput", PerSecond(report.num_completed, report)},
      {"request_goodput", nullptr},
      {"output_throughput", PerSecond(report.output_tokens, report)},
      {"total_token_throughput", PerSecond(report.output_tokens + report.prompt_tokens, report)},
      {"max_output_tokens_per_s", report.max_output_tokens_per_s},
      {"max_concurrent_requests", effort.max_in_flight},
      {"latencies_from", options.from_due ? "due" : "sent"}};
  for (const auto& [name, count] : kOutcomes) json[name] = report.*count;
  if (!options.goodput.empty()) json["request_goodput"] = PerSecond(report.num_good, report);
  for (const auto& [metric, most_ms] : options.goodput) json["goodput"][metric] = most_ms;
  for (const std::string& metric : options.metrics) {
    AddLatencies(metric, SamplesOf(report, metric), options.percentiles, &json);
  }
  json["tokens_per_piece"] = nullptr;
  if (report.num_pieces > 0) {
    json["tokens_per_piece"] =
        static_cast<double>(report.output_tokens) / static_cast<double>(report.num_pieces);
  }
  json["problems"] = nlohmann::ordered_json::array();
  for (const auto& [text, count] : report.problems) {
    json["problems"].push_back({{"problem", text}, {"count", count}});
  }
  const Distribution lag(effort.lag_ms);
  json["client"] = {{"cpu_share", effort.cpu_share()},
                    {"connections", effort.num_connections},
                    {"mean_lag_ms", lag.Mean()},
                    {"p99_lag_ms", lag.Percentile(99)}};
  return json;
}

nlohmann::ordered_json DetailedJson(const std::vector<RequestRecord>& records) {
  nlohmann::ordered_json json;
  for (const char* key : kDetailKeys) json[key] = nlohmann::ordered_json::array();
  for (const RequestRecord& record : records) {
    if (record.outcome == Outcome::kUnsent) continue;
    json["input_lens"].push_back(record.prompt_tokens);
    json["output_lens"].push_back(record.completion_tokens);
    json["ttfts"].push_back(record.got_tokens() ? record.first_token - record.sent : 0);
    auto gaps = nlohmann::ordered_json::array();
    for (const float gap_ms : record.itl_ms) gaps.push_back(gap_ms / 1000.0);
    json["itls"].push_back(std::move(gaps));
    json["latencies"].push_back(record.ended - record.sent);
    json["start_times"].push_back(record.sent);
    json["queue_times"].push_back(record.sent - record.scheduled);
    json["generated_texts"].push_back(record.text);
    json["errors"].push_back(record.problem);
    json["outcomes"].push_back(OutcomeKindOf(record.outcome).name);
  }
  return json;
}

std::string ToText(const ServeReport& report, const ReportOptions& options) {
  std::string text = absl::StrFormat("requests   %d completed, %d failed", report.num_completed,
                                     report.num_failed);
  const auto count = [&](int64_t number, const char* what) {
    if (number > 0) absl::StrAppend(&text, ", ", number, " ", what);
  };
  count(report.num_abandoned, "cancelled on purpose");
  count(report.num_timed_out, "past their deadline");
  count(report.num_interrupted, "cancelled");
  count(report.num_unsent, "not sent");
  absl::StrAppendFormat(&text, " in %.2f s: %.2f requests/s", report.seconds,
                        PerSecond(report.num_completed, report));
  if (!options.goodput.empty()) {
    absl::StrAppendFormat(&text, ", %.2f good ones", PerSecond(report.num_good, report));
  }
  absl::StrAppendFormat(
      &text,
      "\ntokens     %d prompt (%d cached), %d generated: %.1f output, %.1f in all per second, at "
      "most %d output in one\n",
      report.prompt_tokens, report.cached_tokens, report.output_tokens,
      PerSecond(report.output_tokens, report),
      PerSecond(report.output_tokens + report.prompt_tokens, report),
      report.max_output_tokens_per_s);
  absl::StrAppend(&text, SummaryHeader("latency, ms"), "\n");
  for (const std::string& metric : options.metrics) {
    const std::vector<double>& samples = SamplesOf(report, metric);
    const bool tells_nothing = metric == "client_queue_time" && !options.from_due;
    if (!tells_nothing) {
      absl::StrAppend(&text, SummaryRow(LabelOf(metric), Distribution(samples)), "\n");
    }
  }
  for (const auto& [problem, times] : report.problems) {
    absl::StrAppend(&text, "failed     ", times, " x ", problem, "\n");
  }
  return text;
}

std::string ClientWarning(const ClientEffort& effort) {
  const double share = effort.cpu_share();
  const double lag_ms = Distribution(effort.lag_ms).Percentile(99);
  if (!IsBottleneck(share, lag_ms)) return "";
  return absl::StrFormat(
      "the client is the bottleneck, not the server alone: its thread was busy %.0f %% of the "
      "time, and 1 %% of the requests were sent more than %.1f ms late; %s",
      100 * share, lag_ms,
      share < kBusyShare
          ? "other programs take its processor: load from another machine, or a quiet one"
          : "load from another machine, or from several clients");
}

}  // namespace quire::bench
