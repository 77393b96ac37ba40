// Compares two sides figure by figure: their values, the change, and the interval in which the
// change lies with 95 % confidence. Judges the bounds of --fail-if on them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/base/progress.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/results/figure.h"
#include "tools/bench/results/saved_run.h"

namespace quire::bench {

struct ComparedFigure {
  Figure figure;
  std::optional<double> a, b;
  std::optional<double> change = {};  // (b - a) / a; none if a is zero or a value is missing
  std::optional<std::pair<double, double>> interval = {};  // of the change
  std::string why_no_interval = {};
};

struct ComparisonOptions {
  std::vector<std::string> more_figures = {};  // wanted even if the files do not state them
  int64_t num_resamples = 2000;
  uint64_t seed = 0;
  bool are_paired = false;  // then the sides are drawn together
};

// Whether the i-th run of each side sent the same requests, judged by the seed, the number of
// requests, and the prompt tokens of each. Then Compare should draw them together, so that
// differences between requests, and between arrivals, do not count as change.
bool ArePaired(absl::Span<const SavedRun> a, absl::Span<const SavedRun> b);

// `progress`, if any, counts the resamples. Stops early once Interrupted().
std::vector<ComparedFigure> Compare(absl::Span<const SavedRun> a, absl::Span<const SavedRun> b,
                                    const ComparisonOptions& options, Progress* progress);

// 1: B has clearly more, because the interval does not contain zero; -1: clearly less; 0: no clear
// change.
int ClearDirection(const ComparedFigure& one);

std::string ToText(const std::vector<ComparedFigure>& figures);
nlohmann::ordered_json ToJson(const std::vector<ComparedFigure>& figures);

// "p99_ttft_ms>+5%": a change of more than 5 %. "p99_ttft_ms>200": a value of B above 200. "<" is
// for less.
struct Bound {
  std::string text;
  Figure figure;
  bool is_above = true;
  bool is_change = true;
  double limit = 0;  // for a change: 0.05 for 5 %
};

// An error (exit code 64) for anything else.
absl::StatusOr<Bound> ParseBound(const std::string& text);

struct Verdict {
  bool fails = false;
  std::string why;
};

// A bound on a change fails if the change is beyond it and the change's interval, if there is one,
// lies wholly on that side of zero. A bound on a value fails if B is beyond it. An error (exit code
// 66) if there is no such figure.
absl::StatusOr<Verdict> Judge(const Bound& bound, const std::vector<ComparedFigure>& figures);

}  // namespace quire::bench
