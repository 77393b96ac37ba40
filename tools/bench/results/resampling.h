// Resampled: the runs of one side of a comparison. Requests are drawn from them again and again
// (bootstrap), to find how much a figure would differ if other requests had come. One thread.
//
// Requests are drawn in blocks of neighbours, as many as a run has. Requests in one queue wait
// together; if each were drawn by itself, it would seem to say something new. If a side has several
// runs, Draw first draws runs and then their requests, so that differences between runs count. A
// rate needs the length of the drawn run, which follows from its requests. If the requests were
// sent at a given rate, each brings the time since another request ended before it. Otherwise the
// mean number in flight stays the same: by Little's law a run of slower requests is longer in
// proportion.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/bench/results/figure.h"
#include "tools/bench/results/saved_run.h"

namespace quire::bench {

class Resampled {
 public:
  // Keeps references to both.
  Resampled(absl::Span<const SavedRun> runs, const std::vector<Figure>& figures);

  // The runs' value of the figure: computed from all their requests; if that is not possible, the
  // mean of the values in their files.
  std::optional<double> Value(size_t figure) const;
  // Why Draw does not give the figure; empty if it does.
  std::string WhyNot(size_t figure) const;
  // The figures of newly drawn requests: [figures.size()]. A figure is zero if WhyNot says why.
  std::vector<double> Draw(std::mt19937_64& random) const;

 private:
  // A metric's samples in ascending order, each with its request.
  struct Sorted {
    std::string metric;
    std::vector<double> values;
    std::vector<uint32_t> owners;
    std::vector<uint32_t> sizes;  // samples of each request
  };
  using Counts = std::vector<uint32_t>;  // how often each request was drawn

  void SortSamples(const std::string& metric);
  std::vector<double> Evaluate(const Counts& counts) const;
  void EvaluateMetric(const Sorted& sorted, const Counts& counts,
                      std::vector<double>* values) const;
  double Rate(const std::string& name, const Counts& counts) const;
  void ShareSeconds(const SavedRun& run);

  const absl::Span<const SavedRun> runs_;
  const std::vector<Figure>& figures_;
  std::vector<size_t> begins_;  // where each run's requests begin, and the end
  std::vector<Sorted> sorted_;
  std::vector<double> seconds_;  // seconds that each request brings to its run
  std::vector<double> of_all_;   // Evaluate of every request once
};

}  // namespace quire::bench
