#include "tools/bench/sweep/sweep_search.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace quire::bench {

namespace {

constexpr double kKeepsUp = 0.95;
constexpr double kMostFailed = 0.05;
constexpr double kLowest = 1.0 / 64;  // of --from

// Events per second between a fifth and nine tenths of them; 0 for too few.
double MiddleRate(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto last = static_cast<double>(times.size()) - 1;
  if (last < 2) return 0;
  const auto first_index = static_cast<size_t>(std::floor(0.2 * last));
  const auto last_index = static_cast<size_t>(std::ceil(0.9 * last));
  const double seconds = times[last_index] - times[first_index];
  return seconds > 0 ? static_cast<double>(last_index - first_index) / seconds : 0;
}

// Three digits are enough for a rate; requests at a time are whole.
double Rounded(double load, const SweepRules& rules) {
  if (rules.by_concurrency) return std::round(load);
  double rounded = load;
  return absl::SimpleAtod(absl::StrFormat("%.3g", load), &rounded) ? rounded : load;
}

// Why its requests are not as they should be; empty where they are.
std::string WhyBad(const SweepPoint& point, const SweepRules& rules) {
  if (point.failed_share > kMostFailed) {
    return absl::StrFormat("%.0f %% of the requests failed", 100 * point.failed_share);
  }
  if (point.good_share.has_value() && *point.good_share < rules.good_share) {
    return absl::StrFormat("%.0f %% of the requests were good ones", 100 * *point.good_share);
  }
  return "";
}

struct Bracket {
  const SweepPoint* last_good = nullptr;
  const SweepPoint* first_bad = nullptr;
};

Bracket FindBracket(const std::vector<SweepPoint>& points, const SweepRules& rules) {
  Bracket bracket;
  for (const SweepPoint& point : points) {
    const bool is_lower = bracket.first_bad == nullptr || point.load < bracket.first_bad->load;
    if (is_lower && !WhyTooMuch(point, points, rules).empty()) bracket.first_bad = &point;
  }
  for (const SweepPoint& point : points) {
    if (bracket.first_bad != nullptr && point.load >= bracket.first_bad->load) continue;
    if (bracket.last_good == nullptr || point.load > bracket.last_good->load)
      bracket.last_good = &point;
  }
  return bracket;
}

// Halfway between two loads, by ratio; none when they are as near as is wanted.
std::optional<double> Between(double low, double high, const SweepRules& rules) {
  if (high <= low * (1 + rules.precision)) return std::nullopt;
  const double between = Rounded(std::sqrt(low * high), rules);
  return between > low && between < high ? std::optional<double>(between) : std::nullopt;
}

// Half of `load`, unless that is too little to be tried.
std::optional<double> Half(double load, const SweepRules& rules) {
  const double half = Rounded(load / 2, rules);
  const double least = std::max(rules.from * kLowest, rules.by_concurrency ? 1.0 : 0.0);
  return half >= least && half < load ? std::optional<double>(half) : std::nullopt;
}

std::optional<double> NextOfSearch(const std::vector<SweepPoint>& points, const SweepRules& rules) {
  const Bracket bracket = FindBracket(points, rules);
  if (points.empty()) return rules.from;
  if (bracket.first_bad == nullptr) {
    if (bracket.last_good->load >= rules.to) return std::nullopt;
    return std::min(2 * bracket.last_good->load, rules.to);
  }
  if (bracket.last_good == nullptr) return Half(bracket.first_bad->load, rules);
  const double low = bracket.last_good->load;
  if (!rules.by_concurrency || !WhyBad(*bracket.first_bad, rules).empty()) {
    return Between(low, bracket.first_bad->load, rules);
  }
  // More at a time give no more: perhaps fewer than the last good ones are enough.
  const SweepPoint* below = nullptr;
  for (const SweepPoint& point : points) {
    if (point.load < low && (below == nullptr || point.load > below->load)) below = &point;
  }
  return below == nullptr ? Half(low, rules) : Between(below->load, low, rules);
}

}  // namespace

SweepPoint MakePoint(double load, const LoadResult& result, const ServeReport& report,
                     const ReportOptions& options) {
  SweepPoint point = {.load = load};
  std::vector<double> due, ended;
  int64_t sent = 0;
  for (const RequestRecord& record : result.records) {
    if (record.outcome == Outcome::kUnsent) continue;
    ++sent;
    // Later turns are due when an answer has ended, whatever the rate.
    if (options.from_due && record.turn > 0) continue;
    due.push_back(record.scheduled);
    if (record.outcome == Outcome::kCompleted) ended.push_back(record.ended);
  }
  const auto num_sent = static_cast<double>(std::max<int64_t>(sent, 1));
  const double seconds = std::max(report.seconds, 1e-9);
  point.offered_rate = MiddleRate(std::move(due));
  point.achieved_rate = MiddleRate(std::move(ended));
  point.output_throughput = static_cast<double>(report.output_tokens) / seconds;
  point.failed_share = static_cast<double>(report.num_failed) / num_sent;
  if (!options.goodput.empty()) point.good_share = static_cast<double>(report.num_good) / num_sent;
  return point;
}

std::string WhyTooMuch(const SweepPoint& point, const std::vector<SweepPoint>& points,
                       const SweepRules& rules) {
  std::string why = WhyBad(point, rules);
  if (!why.empty()) return why;
  if (!rules.by_concurrency) {
    if (point.achieved_rate >= kKeepsUp * point.offered_rate) return "";
    return absl::StrFormat("%.4g requests/s of %.4g", point.achieved_rate, point.offered_rate);
  }
  double most = 0;
  for (const SweepPoint& other : points) most = std::max(most, other.output_throughput);
  for (const SweepPoint& other : points) {
    if (other.load < point.load && other.output_throughput >= kKeepsUp * most) {
      return absl::StrFormat("no more tokens/s than with %g", other.load);
    }
  }
  return "";
}

std::optional<double> NextLoad(const std::vector<SweepPoint>& points, const SweepRules& rules) {
  const auto num_points = static_cast<int64_t>(points.size());
  if (!rules.values.empty()) {
    return points.size() < rules.values.size() ? std::optional<double>(rules.values[points.size()])
                                               : std::nullopt;
  }
  if (num_points >= rules.max_points) return std::nullopt;
  return NextOfSearch(points, rules);
}

Saturation FindSaturation(const std::vector<SweepPoint>& points, const SweepRules& rules) {
  const Bracket bracket = FindBracket(points, rules);
  Saturation found;
  if (points.empty()) {
    found.sentence = "No load was run to its end.";
    return found;
  }
  if (bracket.first_bad != nullptr) found.first_bad = bracket.first_bad->load;
  if (bracket.last_good == nullptr) {
    found.sentence =
        absl::StrCat("Every load that was tried was too much: ", LoadText(*found.first_bad, rules),
                     " (", WhyTooMuch(*bracket.first_bad, points, rules), ").");
    return found;
  }
  found.last_good = bracket.last_good->load;
  found.sentence = absl::StrFormat("%s: %.4g output tokens/s. ", LoadText(*found.last_good, rules),
                                   bracket.last_good->output_throughput);
  if (bracket.first_bad == nullptr) {
    found.sentence = absl::StrCat("Not saturated at ", found.sentence, "No higher load was tried.");
  } else {
    found.sentence =
        absl::StrCat("Saturates beyond ", found.sentence, LoadText(*found.first_bad, rules),
                     " are too much (", WhyTooMuch(*bracket.first_bad, points, rules), ").");
  }
  return found;
}

std::string LoadText(double load, const SweepRules& rules) {
  return absl::StrFormat("%.4g %s", load, rules.by_concurrency ? "at a time" : "requests/s");
}

}  // namespace quire::bench
