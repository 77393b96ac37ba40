// The search for the load at which a server saturates: which load comes next, and which of the
// earlier loads were too much. Pure.
//
// A rate of requests is too much if the server completed fewer than 95 % of the due requests per
// second in the middle of the run. The first requests do not count, because they find an empty
// server, nor do the last, because they leave it empty. A number of requests at a time is too much
// if a smaller number had at least 95 % of its throughput. Any load is too much if too few of its
// requests were good ones, or too many failed.
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
  std::vector<double> values = {};  // these loads only, without a search
  double precision = 0.1;           // of the found load, as a share of it
  double good_share = 0.9;          // of the sent requests, if --goodput has bounds
  int64_t max_points = 24;
};

struct SweepPoint {
  double load = 0;           // requests per second, or at a time
  double offered_rate = 0;   // due requests per second; for conversations their first turns
  double achieved_rate = 0;  // the part of these that completed
  double output_throughput = 0;
  double failed_share = 0;
  std::optional<double> good_share = {};
};

// The result of a load.
SweepPoint MakePoint(double load, const LoadResult& result, const ServeReport& report,
                     const ReportOptions& options);

// Why it was too much for the server; empty if it was not.
std::string WhyTooMuch(const SweepPoint& point, const std::vector<SweepPoint>& points,
                       const SweepRules& rules);

// The next load. It begins with --from and doubles until a load is too much. Then it goes between
// the highest load that was not too much and the lowest that was, to within the precision. For
// requests at a time it also looks below the highest, because that may be more than needed. None
// when the search is over.
std::optional<double> NextLoad(const std::vector<SweepPoint>& points, const SweepRules& rules);

struct Saturation {
  std::optional<double> last_good, first_bad;  // loads
  std::string sentence;
};
Saturation FindSaturation(const std::vector<SweepPoint>& points, const SweepRules& rules);

// "8 requests/s", "8 at a time".
std::string LoadText(double load, const SweepRules& rules);

}  // namespace quire::bench
