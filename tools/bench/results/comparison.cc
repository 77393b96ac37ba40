#include "tools/bench/results/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/results/resampling.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

std::string ValueText(const std::optional<double>& value) {
  if (!value.has_value()) return "-";
  return *value == std::floor(*value) && std::abs(*value) < 1e9 ? absl::StrFormat("%.0f", *value)
                                                                : absl::StrFormat("%.2f", *value);
}

std::string PercentText(double share) { return absl::StrFormat("%+.1f %%", 100 * share); }

std::string IntervalText(const ComparedFigure& one) {
  if (!one.interval.has_value()) return "-";
  return absl::StrCat(PercentText(one.interval->first), " .. ", PercentText(one.interval->second));
}

// What is beyond the doubt of the interval.
std::string JudgementText(const ComparedFigure& one) {
  if (!one.interval.has_value()) return "";
  const int direction = ClearDirection(one);
  if (direction == 0) return "no clear change";
  if (one.figure.better == 0) return direction > 0 ? "more" : "less";
  return direction == one.figure.better ? "better" : "worse";
}

std::vector<Figure> ChooseFigures(absl::Span<const SavedRun> a, absl::Span<const SavedRun> b,
                                  const std::vector<std::string>& more) {
  std::vector<const SavedRun*> both;
  for (const absl::Span<const SavedRun> side : {a, b}) {
    for (const SavedRun& run : side) both.push_back(&run);
  }
  std::vector<Figure> figures = FiguresOf(both);
  for (const std::string& name : more) {
    const Figure wanted = FigureNamed(name);
    const bool is_there = std::any_of(figures.begin(), figures.end(), [&](const Figure& figure) {
      return figure.name == wanted.name;
    });
    if (!is_there) figures.push_back(wanted);
  }
  return figures;
}

// The change of each figure in each resample: [figures, resamples]; fewer when it was interrupted.
std::vector<std::vector<double>> DrawChanges(const Resampled& a, const Resampled& b,
                                             size_t num_figures, const ComparisonOptions& options,
                                             Progress* progress) {
  std::vector<std::vector<double>> changes(num_figures);
  std::mt19937_64 random(options.seed);
  ProgressStage stage(progress, "resamples", options.num_resamples, ProgressUnit::kItems);
  for (int64_t i = 0; i < options.num_resamples && !Interrupted(); ++i) {
    std::mt19937_64 same = random;
    const std::vector<double> of_a = a.Draw(random),
                              of_b = b.Draw(options.are_paired ? same : random);
    for (size_t f = 0; f < num_figures; ++f) {
      if (of_a[f] != 0) changes[f].push_back((of_b[f] - of_a[f]) / of_a[f]);
    }
    stage.Add(1);
  }
  return changes;
}

}  // namespace

int ClearDirection(const ComparedFigure& one) {
  if (!one.interval.has_value()) return 0;
  return one.interval->first > 0 ? 1 : one.interval->second < 0 ? -1 : 0;
}

bool ArePaired(absl::Span<const SavedRun> a, absl::Span<const SavedRun> b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const SavedRun& one, const SavedRun& other) {
        const std::string seed = TextAt(one.json(), "seed");
        return !seed.empty() && seed == TextAt(other.json(), "seed") && !one.requests.empty() &&
               std::equal(one.requests.begin(), one.requests.end(), other.requests.begin(),
                          other.requests.end(), [](const SavedRequest& x, const SavedRequest& y) {
                            return x.input_tokens == y.input_tokens;
                          });
      });
}

std::vector<ComparedFigure> Compare(absl::Span<const SavedRun> a, absl::Span<const SavedRun> b,
                                    const ComparisonOptions& options, Progress* progress) {
  const std::vector<Figure> figures = ChooseFigures(a, b, options.more_figures);
  const Resampled side_a(a, figures), side_b(b, figures);
  std::vector<std::vector<double>> changes =
      DrawChanges(side_a, side_b, figures.size(), options, progress);
  std::vector<ComparedFigure> compared;
  for (size_t i = 0; i < figures.size(); ++i) {
    ComparedFigure one = {.figure = figures[i], .a = side_a.Value(i), .b = side_b.Value(i)};
    if (one.a.has_value() && one.b.has_value() && *one.a != 0)
      one.change = (*one.b - *one.a) / *one.a;
    one.why_no_interval = side_a.WhyNot(i);
    if (one.why_no_interval.empty()) one.why_no_interval = side_b.WhyNot(i);
    if (one.why_no_interval.empty() && !one.change.has_value()) one.why_no_interval = "A is zero";
    if (one.why_no_interval.empty() && changes[i].empty())
      one.why_no_interval = "no resample has it";
    if (one.why_no_interval.empty()) {
      const Distribution drawn(std::move(changes[i]));
      one.interval = {drawn.Percentile(2.5), drawn.Percentile(97.5)};
    }
    compared.push_back(std::move(one));
  }
  return compared;
}

std::string ToText(const std::vector<ComparedFigure>& figures) {
  std::string text = absl::StrFormat("%-28s %12s %12s %10s   %-22s\n", "", "A", "B", "change",
                                     "95 % interval of it");
  std::vector<std::string> reasons;
  for (const ComparedFigure& one : figures) {
    std::string line =
        absl::StrFormat("%-28s %12s %12s %10s   %-22s %s", one.figure.name, ValueText(one.a),
                        ValueText(one.b), one.change.has_value() ? PercentText(*one.change) : "-",
                        IntervalText(one), JudgementText(one));
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
    const bool is_new =
        std::find(reasons.begin(), reasons.end(), one.why_no_interval) == reasons.end();
    if (one.figure.kind != FigureKind::kStated && !one.why_no_interval.empty() && is_new) {
      reasons.push_back(one.why_no_interval);
    }
  }
  for (const std::string& reason : reasons) absl::StrAppend(&text, "no interval: ", reason, "\n");
  return text;
}

nlohmann::ordered_json ToJson(const std::vector<ComparedFigure>& figures) {
  auto json = nlohmann::ordered_json::object();
  for (const ComparedFigure& one : figures) {
    nlohmann::ordered_json& row = json[one.figure.name];
    row = {{"a", OrNull(one.a)},
           {"b", OrNull(one.b)},
           {"change", OrNull(one.change)},
           {"interval", nullptr}};
    if (one.interval.has_value()) {
      row["interval"] = {one.interval->first, one.interval->second};
    } else {
      row["why_no_interval"] = one.why_no_interval;
    }
  }
  return json;
}

absl::StatusOr<Bound> ParseBound(const std::string& text) {
  const size_t sign = text.find_first_of("<>");
  Bound bound = {.text = text, .figure = FigureNamed(text.substr(0, sign))};
  absl::string_view limit =
      sign == std::string::npos ? "" : absl::string_view(text).substr(sign + 1);
  bound.is_change = absl::ConsumeSuffix(&limit, "%");
  if (sign == std::string::npos || sign == 0 || !absl::SimpleAtod(limit, &bound.limit) ||
      !std::isfinite(bound.limit)) {
    return UsageError(absl::StrCat(
        "--fail-if: \"", text,
        "\" is no bound such as p99_ttft_ms>+5%, output_throughput<-3% or p99_ttft_ms>200"));
  }
  bound.is_above = text[sign] == '>';
  if (bound.is_change) bound.limit /= 100;
  return bound;
}

absl::StatusOr<Verdict> Judge(const Bound& bound, const std::vector<ComparedFigure>& figures) {
  const auto one = std::find_if(figures.begin(), figures.end(), [&](const ComparedFigure& f) {
    return f.figure.name == bound.figure.name;
  });
  if (one == figures.end() || !one->b.has_value() || (bound.is_change && !one->a.has_value())) {
    return WithExitCode(kNoInput, absl::NotFoundError(absl::StrCat(
                                      "--fail-if ", bound.text, ": the files have no \"",
                                      bound.figure.name, "\", nor requests to compute it from")));
  }
  const auto is_beyond = [&](double value, double limit) {
    return bound.is_above ? value > limit : value < limit;
  };
  if (!bound.is_change)
    return Verdict{is_beyond(*one->b, bound.limit), absl::StrCat("B is ", ValueText(one->b))};
  if (!one->change.has_value()) {  // from nothing to something is more than any bound
    const double change =
        *one->b == 0 ? 0 : std::copysign(std::numeric_limits<double>::infinity(), *one->b);
    return Verdict{is_beyond(change, bound.limit),
                   absl::StrCat("A is 0, B is ", ValueText(one->b))};
  }
  Verdict verdict = {.fails = is_beyond(*one->change, bound.limit),
                     .why = PercentText(*one->change)};
  if (!one->interval.has_value()) {
    absl::StrAppend(&verdict.why, ", without an interval");
    return verdict;
  }
  const bool is_clear = bound.is_above ? one->interval->first > 0 : one->interval->second < 0;
  absl::StrAppend(&verdict.why, ", interval ", IntervalText(*one));
  if (verdict.fails && !is_clear)
    absl::StrAppend(&verdict.why, ", in which there may be no change");
  verdict.fails = verdict.fails && is_clear;
  return verdict;
}

}  // namespace quire::bench
