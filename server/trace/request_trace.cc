#include "server/trace/request_trace.h"

namespace quire {

void RequestTrace::Note(const SequenceEvent& event, const RequestTimes* times) {
  Continuation& continuation = continuations[event.key.index];
  switch (event.kind) {
    case SequenceEvent::Kind::kStarted:
      continuation.num_cached_tokens = event.num_cached_tokens;
      return;
    case SequenceEvent::Kind::kToken:
      if (!continuation.has_stop_string) ++continuation.num_generated;
      return;
    case SequenceEvent::Kind::kPromptLogprobs:
      return;
    case SequenceEvent::Kind::kFinished:
      continuation.times = *times;
      continuation.num_preemptions = event.num_preemptions;
      continuation.reason = continuation.has_stop_string ? FinishReason::kStop : event.reason;
      return;
  }
}

void RequestTrace::End(absl::StatusCode code, absl::Time now) {
  if (ended != absl::Time()) return;
  ended = now;
  status = code;
}

absl::StatusCode RequestTrace::outcome() const {
  if (status != absl::StatusCode::kOk) return status;
  for (const Continuation& continuation : continuations) {
    if (continuation.reason == FinishReason::kAbort) return absl::StatusCode::kCancelled;
  }
  return status;
}

int64_t RequestTrace::num_spans() const {
  int64_t count = 1;
  for (const Continuation& continuation : continuations) {
    if (continuation.reason == FinishReason::kNone) continue;
    count += 1 + (continuation.times.first_scheduled != absl::Time() ? 1 : 0) +
             (continuation.times.first_token != absl::Time() ? 1 : 0);
  }
  return count;
}

}  // namespace quire
