// Exemplars: the last recorded request in each bucket of the histograms of a request's times, so
// that a board leads from a slow bucket to a trace. Written once for a recorded sequence; any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/metrics/engine_metrics.h"

namespace quire {

// The histograms that have them.
enum class RequestTime : uint8_t {
  kTimeToFirstToken,
  kE2eLatency,
  kQueue,
  kPrefill,
  kDecode,
  kInference,
};
inline constexpr int kNumRequestTimes = 6;

struct Exemplar {
  double value = 0;  // seconds
  absl::Time time;
  std::string trace_id;  // in hexadecimal; empty: there is none
  std::string span_id;
};

class Exemplars {
 public:
  // With the buckets of these histograms.
  explicit Exemplars(const EngineMetrics& metrics);

  void Note(RequestTime which, Exemplar exemplar);
  // One for each bucket, and one beyond the last bound.
  std::vector<Exemplar> Of(RequestTime which) const;

 private:
  std::array<std::vector<double>, kNumRequestTimes> bounds_;
  mutable absl::Mutex mutex_;
  std::array<std::vector<Exemplar>, kNumRequestTimes> exemplars_ ABSL_GUARDED_BY(mutex_);
};

// The histogram that has the exemplars of `which`.
const Histogram& HistogramOf(RequestTime which, const EngineMetrics& metrics);

}  // namespace quire
