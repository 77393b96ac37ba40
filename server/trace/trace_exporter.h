// TraceExporter: decides which requests are recorded, and brings their spans to the collector: from
// a bounded queue, in batches, on its own thread. A collector that is away, slow or unwilling costs
// only spans, which are counted. Any thread; nobody waits.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"
#include "server/base/throttle.h"
#include "server/observe/metrics/exemplars.h"
#include "server/observe/metrics/server_metrics.h"
#include "server/trace/otlp_client.h"
#include "server/trace/otlp_options.h"
#include "server/trace/request_trace.h"

namespace quire {

class TraceExporter;

// Gives a trace that nobody holds any more to its exporter.
struct DeliverTrace {
  TraceExporter* exporter = nullptr;
  void operator()(RequestTrace* trace) const;
};
using RecordedTrace = std::unique_ptr<RequestTrace, DeliverTrace>;

class TraceExporter {
 public:
  // Spans that wait; those of further requests are dropped.
  static constexpr int64_t kMaxQueuedSpans = 8192;
  // How long the destructor may take to export waiting spans.
  static constexpr absl::Duration kFlushTime = absl::Seconds(1);

  // `metrics` and `exemplars` outlive the exporter.
  TraceExporter(const OtlpOptions& options, ServerMetrics* metrics, Exemplars* exemplars);
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  // The trace of a call whose caller sent `callers`: the caller's trace, which says itself whether
  // it is sampled; or a new one, for the share of calls that are sampled; or none.
  TraceContext TraceOf(TraceContext callers) const;

  // Records a request of a call with this trace that came at `arrived`; null if the trace is not
  // sampled. The record goes to the collector once it is let go, which must be after its End and
  // before the exporter is gone.
  RecordedTrace Record(TraceContext context, absl::Time arrived);

 private:
  friend struct DeliverTrace;
  using Traces = std::vector<std::unique_ptr<RequestTrace>>;

  void Add(std::unique_ptr<RequestTrace> trace);
  void Run();
  bool WaitForBatch(Traces* batch);  // false when all is done
  void Export(const Traces& batch);
  // Waits as long as the failures so far demand; false when there is no more time.
  bool WaitToTry();
  void CountDropped(int64_t num_spans, const absl::Status& why);

  const OtlpOptions options_;
  const uint64_t sample_bound_;  // of the last 8 bytes of a trace's id
  ServerMetrics* const metrics_;
  Exemplars* const exemplars_;
  OtlpClient client_;
  Throttle complaints_{absl::Minutes(1)};
  // The exporter's thread.
  int num_failures_ = 0;  // in a row
  std::minstd_rand random_{std::random_device()()};

  absl::Mutex mutex_;
  MonotonicCondVar news_;
  std::deque<std::unique_ptr<RequestTrace>> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t num_queued_spans_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // the last member: it uses all others
};

}  // namespace quire
