// The figures of a run that can be compared, by the names of the JSON's keys: "p99_ttft_ms",
// "output_throughput". Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/results/saved_run.h"

namespace quire::bench {

enum class FigureKind : uint8_t {
  kLatency,  // a statistic of the requests' samples
  kRate,     // requests, or a part of them such as tokens, per second of the run
  kStated,   // a value of the whole run, which only its file can say
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

// The figures that any of the runs' files has, in the order of a report.
std::vector<Figure> FiguresOf(const std::vector<const SavedRun*>& runs);

// An error (exit code 66) if the run has no figures; it says which kinds of files have some.
absl::Status CheckHasFigures(const SavedRun& run);

// A request's samples of "ttft", "tpot", "itl", "e2el" or "client_queue_time", in ms.
void AppendSamples(const SavedRequest& request, const std::string& metric,
                   std::vector<double>* samples);
// The amount that a request adds to the count of "request_throughput" or a similar rate.
double RateShare(const SavedRun& run, const SavedRequest& request, const std::string& name);

}  // namespace quire::bench
