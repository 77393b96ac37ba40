#include "tools/bench/serve/serve_report.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

double Ms(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// A request that completed, or had got tokens when it was cancelled.
void AddSamples(const RequestRecord& record, ServeReport* report) {
  const auto& times = record.token_times;
  report->prompt_tokens += record.prompt_tokens;
  report->cached_tokens += record.cached_tokens;
  report->ttft_ms.push_back(Ms(times.front() - record.started));
  for (size_t i = 1; i < times.size(); ++i) {
    report->itl_ms.push_back(Ms(times[i] - times[i - 1]));
  }
  if (record.cancelled) {
    report->completion_tokens += static_cast<int64_t>(times.size());
    return;
  }
  report->completion_tokens += record.completion_tokens;
  report->e2e_ms.push_back(Ms(record.ended - record.started));
  if (times.size() > 1) {
    report->tpot_ms.push_back(Ms(times.back() - times.front()) /
                              static_cast<double>(times.size() - 1));
  }
}

double PerSecond(int64_t count, const ServeReport& report) {
  return static_cast<double>(count) / (report.seconds > 0 ? report.seconds : 1);
}

}  // namespace

ServeReport MakeServeReport(const std::vector<RequestRecord>& records) {
  ServeReport report;
  std::optional<Clock::time_point> begin, end;
  for (const RequestRecord& record : records) {
    if (!record.sent) {
      ++report.num_unsent;
      continue;
    }
    begin = std::min(begin.value_or(record.started), record.started);
    end = std::max(end.value_or(record.ended), record.ended);
    const bool got_tokens = !record.token_times.empty();
    if (record.cancelled) {
      ++report.num_unfinished;
    } else if (record.status.ok() && got_tokens) {
      ++report.num_completed;
    } else {
      if (report.num_failed++ == 0) report.first_failure = record.status;
      continue;
    }
    if (got_tokens) AddSamples(record, &report);
  }
  if (begin.has_value()) report.seconds = Ms(*end - *begin) / 1000.0;
  return report;
}

nlohmann::ordered_json ToJson(const ServeReport& report) {
  return {
      {"completed", report.num_completed},
      {"failed", report.num_failed},
      {"unfinished", report.num_unfinished},
      {"unsent", report.num_unsent},
      {"duration_s", report.seconds},
      {"prompt_tokens", report.prompt_tokens},
      {"cached_tokens", report.cached_tokens},
      {"completion_tokens", report.completion_tokens},
      {"requests_per_s", PerSecond(report.num_completed, report)},
      {"output_tokens_per_s", PerSecond(report.completion_tokens, report)},
      {"total_tokens_per_s", PerSecond(report.completion_tokens + report.prompt_tokens, report)},
      {"ttft_ms", ToJson(Summarize(report.ttft_ms))},
      {"tpot_ms", ToJson(Summarize(report.tpot_ms))},
      {"itl_ms", ToJson(Summarize(report.itl_ms))},
      {"e2e_ms", ToJson(Summarize(report.e2e_ms))}};
}

std::string ToText(const ServeReport& report) {
  const int64_t all_tokens = report.completion_tokens + report.prompt_tokens;
  std::string text = absl::StrFormat("requests   %d completed, %d failed", report.num_completed,
                                     report.num_failed);
  if (report.num_unfinished > 0 || report.num_unsent > 0) {
    absl::StrAppend(&text, ", ", report.num_unfinished, " cancelled, ", report.num_unsent,
                    " not sent");
  }
  absl::StrAppendFormat(&text, " in %.2f s: %.2f requests/s\n", report.seconds,
                        PerSecond(report.num_completed, report));
  absl::StrAppendFormat(
      &text,
      "tokens     %d prompt (%d cached), %d generated: %.1f output, %.1f in all per second\n",
      report.prompt_tokens, report.cached_tokens, report.completion_tokens,
      PerSecond(report.completion_tokens, report), PerSecond(all_tokens, report));
  absl::StrAppend(&text, SummaryHeader("latency, ms"), "\n",
                  SummaryRow("time to first token", Summarize(report.ttft_ms)), "\n",
                  SummaryRow("time per output token", Summarize(report.tpot_ms)), "\n",
                  SummaryRow("inter-token latency", Summarize(report.itl_ms)), "\n",
                  SummaryRow("end to end", Summarize(report.e2e_ms)), "\n");
  return text;
}

}  // namespace quire::bench
