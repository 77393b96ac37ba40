// The figures of a run that can be compared, by the names of the JSON's keys: "p99_ttft_ms",
// "output_throughput". Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/results/saved_run.h"

namespace quire::bench {

enum class FigureKind : uint8_t {
  kLatency,  // a statistic of samples that requests have
  kRate,     // something of the requests per second of the run
  kStated,   // of the run as a whole: only its file can say it
};

enum class Statistic : uint8_t { kMean, kDeviation, kPercentile };

struct Figure {
  std::string name;
  FigureKind kind = FigureKind::kStated;
  std::string metric = {};  // kLatency: "ttft"
  Statistic statistic = Statistic::kMean;
  double percent = 0;  // kPercentile
  int better = 0;      // 1: more is better; -1: less is; 0: neither
};

// "p99_ttft" is "p99_ttft_ms", too.
Figure FigureNamed(const std::string& name);

// Those that any of the runs' files has, in the order of a report.
std::vector<Figure> FiguresOf(const std::vector<const SavedRun*>& runs);

// An error (exit code 66) that says what files there are, where it has none.
absl::Status CheckHasFigures(const SavedRun& run);

// A request's samples of "ttft", "tpot", "itl", "e2el" or "client_queue_time", in ms.
void AppendSamples(const SavedRequest& request, const std::string& metric,
                   std::vector<double>* samples);
// What a request adds to what "request_throughput" and its like count.
double RateShare(const SavedRun& run, const SavedRequest& request, const std::string& name);

}  // namespace quire::bench
