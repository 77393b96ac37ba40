#include "server/observe/metrics/exemplars.h"

#include <algorithm>
#include <utility>

namespace quire {

const Histogram& HistogramOf(RequestTime which, const EngineMetrics& metrics) {
  switch (which) {
    case RequestTime::kTimeToFirstToken:
      return metrics.time_to_first_token;
    case RequestTime::kE2eLatency:
      return metrics.e2e_latency;
    case RequestTime::kQueue:
      return metrics.queue_time;
    case RequestTime::kPrefill:
      return metrics.prefill_time;
    case RequestTime::kDecode:
      return metrics.decode_time;
    case RequestTime::kInference:
      return metrics.inference_time;
  }
  return metrics.e2e_latency;
}

Exemplars::Exemplars(const EngineMetrics& metrics) {
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < bounds_.size(); ++i) {
    bounds_[i] = HistogramOf(static_cast<RequestTime>(i), metrics).Read().bounds;
    exemplars_[i].resize(bounds_[i].size() + 1);
  }
}

void Exemplars::Note(RequestTime which, Exemplar exemplar) {
  const auto i = static_cast<size_t>(which);
  const auto bound = std::lower_bound(bounds_[i].begin(), bounds_[i].end(), exemplar.value);
  absl::MutexLock lock(&mutex_);
  exemplars_[i][static_cast<size_t>(bound - bounds_[i].begin())] = std::move(exemplar);
}

std::vector<Exemplar> Exemplars::Of(RequestTime which) const {
  absl::MutexLock lock(&mutex_);
  return exemplars_[static_cast<size_t>(which)];
}

}  // namespace quire
