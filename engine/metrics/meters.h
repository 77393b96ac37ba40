// RequestMeter and StepMeter: the figures of a request, and of the steps in flight, which the
// engine's thread keeps until EngineMetrics has them. Engine thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "engine/metrics/engine_metrics.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_output.h"

namespace quire {

class RequestMeter {
 public:
  // `submitted`: when the engine got the request.
  RequestMeter(const Request& request, absl::Time submitted);

  // One event of the request, at `now`.
  void Count(const Request& request, const SequenceEvent& event, absl::Time now,
             EngineMetrics* metrics);
  // Every continuation that has not ended ends now.
  void CountEnds(const Request& request, FinishReason reason, absl::Time now,
                 EngineMetrics* metrics);

 private:
  struct Continuation {
    absl::Time first_scheduled;
    absl::Time first_token;
    absl::Time last_token;
    int64_t num_cached_tokens = 0;
    int64_t num_generated = 0;
    bool is_finished = false;
  };

  void CountToken(const Request& request, Continuation& sequence, absl::Time now,
                  EngineMetrics* metrics) const;
  void CountEnd(const Request& request, FinishReason reason, Continuation& sequence, absl::Time now,
                EngineMetrics* metrics);

  absl::Time arrived_;
  absl::Time submitted_;
  int64_t num_unfinished_;
  int64_t longest_ = 0;
  absl::InlinedVector<Continuation, 1> continuations_;
};

class StepMeter {
 public:
  // A step is submitted at `now`. Submitted steps end in the same order.
  void Begin(const SchedulerOutput& output, absl::Time now, EngineMetrics* metrics);
  void End(absl::Time now, EngineMetrics* metrics);

 private:
  struct Step {
    StepKind kind;
    absl::Time submitted;
  };
  std::deque<Step> in_flight_;
  absl::Time last_end_ = absl::InfinitePast();
};

}  // namespace quire
