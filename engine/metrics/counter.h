// Counter and Histogram: one thread counts and any thread may read, without locks. The writer pays
// a load and a store, no locked instruction; a reader sees each number as it was at some moment of
// its reading.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace quire {

class Counter {
 public:
  // The one writer's thread.
  void Add(uint64_t count = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// The values of a histogram: counts[i] is the number of values of at most bounds[i] and more than
// the bound before; the last count is the number of values above all bounds.
struct HistogramValues {
  std::vector<double> bounds;
  std::vector<uint64_t> counts;  // [bounds.size() + 1]
  double sum = 0;
};

class Histogram {
 public:
  // Upper bounds, ascending.
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)),
        counts_(std::make_unique<Counter[]>(bounds_.size() + 1)) {}  // NOLINT(*-avoid-c-arrays)

  // The one writer's thread.
  void Observe(double value) {
    const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    counts_[static_cast<size_t>(bound - bounds_.begin())].Add();
    sum_.store(sum_.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }

  // Any thread.
  HistogramValues Read() const {
    HistogramValues values;
    values.bounds = bounds_;
    values.counts.reserve(bounds_.size() + 1);
    for (size_t i = 0; i <= bounds_.size(); ++i) values.counts.push_back(counts_[i].value());
    values.sum = sum_.load(std::memory_order_relaxed);
    return values;
  }

 private:
  const std::vector<double> bounds_;
  const std::unique_ptr<Counter[]> counts_;  // NOLINT(*-avoid-c-arrays)
  std::atomic<double> sum_{0};
};

}  // namespace quire
