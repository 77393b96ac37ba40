// Two sides of a comparison, figure by figure: values, change, and the interval in which the change
// lies with 95 % confidence; and the bounds of --fail-if on them. Pure.
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
  std::optional<double> change = {};  // (b - a) / a; none where a is zero or one is missing
  std::optional<std::pair<double, double>> interval = {};  // of the change
  std::string why_no_interval = {};
};

struct ComparisonOptions {
  std::vector<std::string> more_figures =
      {};  // that are wanted, though the files may not state them
  int64_t num_resamples = 2000;
  uint64_t seed = 0;
  bool are_paired = false;  // the sides, which are then drawn together
};

// Whether the i-th run of each side sent the same requests: by its seed, how many there are, and
// the prompt tokens of each. Then they are to be drawn together, so that what differs from request
// to request, and from arrival to arrival, is none of the change.
bool ArePaired(absl::Span<const SavedRun> a, absl::Span<const SavedRun> b);

// `progress`, if any, counts the resamples. Stops early once Interrupted().
std::vector<ComparedFigure> Compare(absl::Span<const SavedRun> a, absl::Span<const SavedRun> b,
                                    const ComparisonOptions& options, Progress* progress);

// 1: B has more, beyond the doubt of the interval; -1: less; 0: there is no clear change.
int ClearDirection(const ComparedFigure& one);

std::string ToText(const std::vector<ComparedFigure>& figures);
nlohmann::ordered_json ToJson(const std::vector<ComparedFigure>& figures);

// "p99_ttft_ms>+5%": a change of more than that; "p99_ttft_ms>200": a value of B of more than that;
// "<" likewise.
struct Bound {
  std::string text;
  Figure figure;
  bool is_above = true;
  bool is_change = true;
  double limit = 0;  // of a change: 0.05 for 5 %
};

// An error (exit code 64) for anything else.
absl::StatusOr<Bound> ParseBound(const std::string& text);

struct Verdict {
  bool fails = false;
  std::string why;
};

// A bound of a change fails when the change is beyond it and its interval, if there is one, is
// wholly on that side of no change; a bound of a value when B is beyond it. An error (exit code 66)
// when there is no such figure.
absl::StatusOr<Verdict> Judge(const Bound& bound, const std::vector<ComparedFigure>& figures);

}  // namespace quire::bench
