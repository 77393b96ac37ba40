// Resampled: the runs of one side of a comparison, from which requests are drawn again and again
// (bootstrap), so that it can be said how far a figure would be another one if other requests had
// come. One thread.
//
// Requests are drawn in blocks of neighbours, as many as there are in each: who waits in one queue
// waits together, and alone each would seem to say something new. Where a side has several runs,
// runs are drawn first and then their requests: what differs from run to run counts. A rate is that
// of a run as long as its requests make it. Where they were sent at a given rate, each brings the
// time since another one ended before it. Elsewhere the mean number in flight is kept: by Little's
// law a run of slower requests is so much longer.
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

  // What the runs say: of all their requests, else the mean of what their files say.
  std::optional<double> Value(size_t figure) const;
  // Why Draw does not have it; empty if it does.
  std::string WhyNot(size_t figure) const;
  // The figures of requests drawn anew: [figures.size()], zero where WhyNot says why.
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
  std::vector<size_t> begins_;  // of each run's requests, and the end
  std::vector<Sorted> sorted_;
  std::vector<double> seconds_;  // that each request brings to its run
  std::vector<double> of_all_;   // Evaluate of every request once
};

}  // namespace quire::bench
