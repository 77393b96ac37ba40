// MetricText: writes metrics as Prometheus reads them: its text format 0.0.4, or OpenMetrics 1.0.
// One thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/metrics/counter.h"
#include "server/observe/metrics/exemplars.h"

namespace quire {

enum class MetricFormat : uint8_t { kPrometheus, kOpenMetrics };
enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };

// The content-type of such a page.
absl::string_view ContentTypeOf(MetricFormat format);

class MetricText {
 public:
  using Labels = std::initializer_list<std::pair<absl::string_view, absl::string_view>>;

  // Samples of all metrics have `common` labels beside their own, except samples that AddPlain
  // adds.
  MetricText(MetricFormat format, Labels common);

  // Begins a metric; the name of a counter ends with "_total". Its samples follow.
  void Begin(absl::string_view name, MetricType type, absl::string_view help);
  void Add(double value, Labels labels = {});
  void AddPlain(double value, Labels labels);
  // `exemplars`, which may be empty, belong to the buckets; only OpenMetrics has them.
  void AddHistogram(const HistogramValues& values, Labels labels = {},
                    const std::vector<Exemplar>& exemplars = {});
  // Begin and Add.
  void AddGauge(absl::string_view name, absl::string_view help, double value) {
    Begin(name, MetricType::kGauge, help);
    Add(value);
  }
  void AddCounter(absl::string_view name, absl::string_view help, double value) {
    Begin(name, MetricType::kCounter, help);
    Add(value);
  }
  // Begin and AddHistogram.
  void AddHistogramOf(absl::string_view name, absl::string_view help, const Histogram& histogram,
                      const std::vector<Exemplar>& exemplars = {}) {
    Begin(name, MetricType::kHistogram, help);
    AddHistogram(histogram.Read(), {}, exemplars);
  }

  // The whole page; the last call.
  std::string Finish();

 private:
  void AddSample(absl::string_view suffix, absl::string_view labels, absl::string_view value,
                 absl::string_view exemplar = "");

  const MetricFormat format_;
  const std::string common_;
  std::string name_;  // of the metric that was begun
  std::string text_;
};

}  // namespace quire
