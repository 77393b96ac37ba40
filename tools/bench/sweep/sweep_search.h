// The search for the load at which a server saturates: which load comes next, and which of those
// that were run were too much. Pure.
//
// A rate of requests is too much when fewer than 95 % of what was due were completed per second, of
// the middle of the run: neither the first requests, which find an empty server, nor the last,
// which leave it empty. So many requests at a time are too much when fewer had at least 95 % of
// their throughput. Any load is when too few of its requests were good ones, or too many failed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/load/load.h"
#include "tools/bench/serve/serve_report.h"

namespace quire::bench {

struct SweepRules {
  bool by_concurrency = false;  // else by requests per second
  double from = 1, to = 1e5;
  std::vector<double> values = {};  // in their place, and no search
  double precision = 0.1;           // of what is found, as a share of it
  double good_share = 0.9;          // of the requests that are sent, where --goodput has bounds
  int64_t max_points = 24;
};

struct SweepPoint {
  double load = 0;           // requests per second, or at a time
  double offered_rate = 0;   // requests per second that were due; of conversations the first turns
  double achieved_rate = 0;  // of these, that completed
  double output_throughput = 0;
  double failed_share = 0;
  std::optional<double> good_share = {};
};

// What became of a load.
SweepPoint MakePoint(double load, const LoadResult& result, const ServeReport& report,
                     const ReportOptions& options);

// Why it was too much for the server; empty where it was not.
std::string WhyTooMuch(const SweepPoint& point, const std::vector<SweepPoint>& points,
                       const SweepRules& rules);

// From --from twice as much each time until it is too much; then between the highest load that was
// not and the lowest that was, to within the precision; of requests at a time below the highest,
// since that may be more than are needed. None when the search is over.
std::optional<double> NextLoad(const std::vector<SweepPoint>& points, const SweepRules& rules);

struct Saturation {
  std::optional<double> last_good, first_bad;  // loads
  std::string sentence;
};
Saturation FindSaturation(const std::vector<SweepPoint>& points, const SweepRules& rules);

// "8 requests/s", "8 at a time".
std::string LoadText(double load, const SweepRules& rules);

}  // namespace quire::bench
