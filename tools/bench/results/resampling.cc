#include "tools/bench/results/resampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace quire::bench {

namespace {

double SecondsOf(const SavedRun& run) {
  if (const auto stated = NumberAt(run.json(), "duration"); stated.value_or(0) > 0) return *stated;
  double last = 0;
  for (const SavedRequest& request : run.requests) last = std::max(last, request.end);
  return last;
}

}  // namespace

Resampled::Resampled(absl::Span<const SavedRun> runs, const std::vector<Figure>& figures)
    : runs_(runs), figures_(figures), begins_({0}) {
  for (const SavedRun& run : runs) begins_.push_back(begins_.back() + run.requests.size());
  for (const Figure& figure : figures) {
    const bool is_sorted = std::any_of(sorted_.begin(), sorted_.end(), [&](const Sorted& sorted) {
      return sorted.metric == figure.metric;
    });
    if (figure.kind == FigureKind::kLatency && !is_sorted) SortSamples(figure.metric);
  }
  for (const SavedRun& run : runs) ShareSeconds(run);
  of_all_ = Evaluate(Counts(begins_.back(), 1));
}

void Resampled::ShareSeconds(const SavedRun& run) {
  const size_t size = run.requests.size();
  std::vector<double> shares(size);
  if (NumberAt(run.json(), "request_rate").has_value()) {
    std::vector<size_t> by_end(size);
    std::iota(by_end.begin(), by_end.end(), size_t{0});
    std::stable_sort(by_end.begin(), by_end.end(), [&run](size_t a, size_t b) {
      return run.requests[a].end < run.requests[b].end;
    });
    double before = 0;
    for (const size_t i : by_end) {
      shares[i] = std::max(0.0, run.requests[i].end - before);
      before = std::max(before, run.requests[i].end);
    }
  } else {
    for (size_t i = 0; i < size; ++i) shares[i] = run.requests[i].end - run.requests[i].start;
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (const double share : shares) {
    seconds_.push_back(SecondsOf(run) * (sum > 0 ? share / sum : 1 / static_cast<double>(size)));
  }
}

void Resampled::SortSamples(const std::string& metric) {
  Sorted sorted = {.metric = metric, .values = {}, .owners = {}, .sizes = {}};
  std::vector<std::pair<double, uint32_t>> samples;
  std::vector<double> of_request;
  for (const SavedRun& run : runs_) {
    for (const SavedRequest& request : run.requests) {
      of_request.clear();
      AppendSamples(request, metric, &of_request);
      for (const double sample : of_request) samples.emplace_back(sample, sorted.sizes.size());
      sorted.sizes.push_back(static_cast<uint32_t>(of_request.size()));
    }
  }
  std::sort(samples.begin(), samples.end());
  for (const auto& [value, owner] : samples) {
    sorted.values.push_back(value);
    sorted.owners.push_back(owner);
  }
  sorted_.push_back(std::move(sorted));
}

std::string Resampled::WhyNot(size_t figure) const {
  if (figures_[figure].kind == FigureKind::kStated) return "it is of the run as a whole";
  for (const SavedRun& run : runs_) {
    if (!run.why_no_requests.empty()) return run.why_no_requests;
    if (figures_[figure].name == "request_goodput" && run.goodput.empty()) {
      return absl::StrCat(run.path, " does not say the bounds of a good request (\"goodput\")");
    }
  }
  for (const Sorted& sorted : sorted_) {
    if (sorted.metric == figures_[figure].metric && sorted.values.empty()) {
      return absl::StrCat("no request of ", runs_[0].path, " has a ", sorted.metric);
    }
  }
  return "";
}

std::optional<double> Resampled::Value(size_t figure) const {
  if (WhyNot(figure).empty()) return of_all_[figure];
  double sum = 0;
  for (const SavedRun& run : runs_) {
    const std::optional<double> stated = NumberAt(run.json(), figures_[figure].name);
    if (!stated.has_value()) return std::nullopt;
    sum += *stated;
  }
  return sum / static_cast<double>(runs_.size());
}

std::vector<double> Resampled::Draw(std::mt19937_64& random) const {
  Counts counts(begins_.back(), 0);
  std::uniform_int_distribution<size_t> any_run(0, runs_.size() - 1);
  for (size_t i = 0; i < runs_.size(); ++i) {
    const size_t run = runs_.size() > 1 ? any_run(random) : 0;
    const size_t size = begins_[run + 1] - begins_[run];
    if (size == 0) continue;
    const auto block = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(size))));
    std::uniform_int_distribution<size_t> any_request(0, size - 1);
    for (size_t j = 0, first = 0; j < size; ++j) {
      if (j % block == 0) first = any_request(random);
      ++counts[begins_[run] + (first + j % block) % size];
    }
  }
  return Evaluate(counts);
}

std::vector<double> Resampled::Evaluate(const Counts& counts) const {
  std::vector<double> values(figures_.size(), 0.0);
  for (const Sorted& sorted : sorted_) EvaluateMetric(sorted, counts, &values);
  for (size_t i = 0; i < figures_.size(); ++i) {
    if (figures_[i].kind == FigureKind::kRate) values[i] = Rate(figures_[i].name, counts);
  }
  return values;
}

// Percentiles by linear interpolation between closest ranks, as Distribution has them.
void Resampled::EvaluateMetric(const Sorted& sorted, const Counts& counts,
                               std::vector<double>* values) const {
  uint64_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i) total += uint64_t{counts[i]} * sorted.sizes[i];
  if (total == 0) return;
  std::vector<size_t> wanted;  // percentiles, ascending
  for (size_t i = 0; i < figures_.size(); ++i) {
    if (figures_[i].metric == sorted.metric && figures_[i].statistic == Statistic::kPercentile)
      wanted.push_back(i);
  }
  std::sort(wanted.begin(), wanted.end(),
            [this](size_t a, size_t b) { return figures_[a].percent < figures_[b].percent; });
  const auto rank = [&](size_t k) {
    return figures_[wanted[k]].percent / 100 * static_cast<double>(total - 1);
  };
  double sum = 0, sum_of_squares = 0, before = 0;
  uint64_t num_before = 0;
  size_t next = 0;
  for (size_t i = 0; i < sorted.values.size(); ++i) {
    const uint32_t count = counts[sorted.owners[i]];
    if (count == 0) continue;
    const double value = sorted.values[i];
    // This value has the ranks from num_before to num_before + count - 1.
    for (; next < wanted.size() && rank(next) <= static_cast<double>(num_before + count - 1);
         ++next) {
      const double above = rank(next) - (static_cast<double>(num_before) - 1);  // the value before
      (*values)[wanted[next]] = above >= 1 ? value : before + above * (value - before);
    }
    sum += count * value;
    sum_of_squares += count * value * value;
    num_before += count;
    before = value;
  }
  const double mean = sum / static_cast<double>(total);
  const double variance = std::max(0.0, sum_of_squares / static_cast<double>(total) - mean * mean);
  for (size_t i = 0; i < figures_.size(); ++i) {
    if (figures_[i].metric != sorted.metric) continue;
    if (figures_[i].statistic == Statistic::kMean) (*values)[i] = mean;
    if (figures_[i].statistic == Statistic::kDeviation) (*values)[i] = std::sqrt(variance);
  }
}

double Resampled::Rate(const std::string& name, const Counts& counts) const {
  double amount = 0, seconds = 0;
  for (size_t r = 0; r < runs_.size(); ++r) {
    const std::vector<SavedRequest>& requests = runs_[r].requests;
    for (size_t i = 0; i < requests.size(); ++i) {
      const double count = counts[begins_[r] + i];
      amount += count * RateShare(runs_[r], requests[i], name);
      seconds += count * seconds_[begins_[r] + i];
    }
  }
  return seconds > 0 ? amount / seconds : 0;
}

}  // namespace quire::bench
