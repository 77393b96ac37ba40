// The report of `serve` on the records of its load: counts, rates and latencies; as text, and as
// JSON under the names of vLLM's benchmark.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/load/load.h"

namespace quire::bench {

// Upper bounds in ms of "ttft", "tpot" and "e2el". A request within them is a good one.
using GoodputBounds = std::vector<std::pair<std::string, double>>;

bool KeepsBounds(const GoodputBounds& bounds, double ttft_ms, double tpot_ms, double e2el_ms);

// How to judge a run.
struct ReportOptions {
  // Latencies count from the time when a request was due, not from the time when a place was free
  // for it. Otherwise a server that stands still would hold back the requests that would show it.
  // If only free places decide when a request is sent, latencies count from then.
  bool from_due = false;
  std::vector<std::string> metrics = {"ttft", "tpot", "itl", "e2el", "client_queue_time"};
  std::vector<double> percentiles = {99};
  GoodputBounds goodput = {};  // none: not asked for
};

// "ttft:200 tpot:50" as ReportOptions::goodput. An error (exit code 64) for anything else.
absl::StatusOr<GoodputBounds> ParseGoodput(const std::vector<std::string>& bounds);

struct ServeReport {
  // Samples of all requests that got tokens; tpot and e2el only of requests that completed.
  std::vector<double> ttft_ms, tpot_ms, itl_ms, e2el_ms, client_queue_time_ms;
  int64_t num_completed = 0;
  int64_t num_failed = 0;
  int64_t num_abandoned = 0;    // by --cancel-rate
  int64_t num_timed_out = 0;    // by --deadline-ms
  int64_t num_interrupted = 0;  // sent, and cancelled when the run ended
  int64_t num_unsent = 0;       // not sent when the run ended
  int64_t num_good = 0;
  int64_t num_uncounted = 0;  // completed, but nobody counted the prompt's or the answer's tokens
  int64_t num_stopped = 0;    // completed before their maximum length
  int64_t num_pieces = 0;     // pieces of answers, each with tokens
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // of requests that got tokens
  double seconds = 0;  // from the first request's time to the last end
  int64_t max_output_tokens_per_s = 0;
  std::string first_problem;
  std::vector<std::pair<std::string, int64_t>> problems;  // each with its count, commonest first
};

ServeReport MakeServeReport(const LoadResult& result, const ReportOptions& options);

// A metric's figures under their names: "mean_ttft_ms", "p99_ttft_ms"; null if no request has the
// metric. An example is the time between tokens if each answer has one token.
void AddLatencies(const std::string& metric, std::vector<double> samples,
                  const std::vector<double>& percentiles, nlohmann::ordered_json* json);

nlohmann::ordered_json ToJson(const ServeReport& report, const ClientEffort& effort,
                              const ReportOptions& options);
// The details of every request that --save-detailed adds: a list for each key.
inline constexpr const char* kDetailKeys[] = {
    "input_lens",  "output_lens", "ttfts",           "itls",   "latencies",
    "start_times", "queue_times", "generated_texts", "errors", "outcomes"};
nlohmann::ordered_json DetailedJson(const std::vector<RequestRecord>& records);
std::string ToText(const ServeReport& report, const ReportOptions& options);

// A sentence if the client could not keep up, so that the figures do not describe the server; else
// empty.
std::string ClientWarning(const ClientEffort& effort);

}  // namespace quire::bench
