// RequestTrace: the notes about one recorded request, until its spans are made of them. It never
// has a prompt or an answer. Passed on with the request: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/output_stream.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_output.h"
#include "server/trace/trace_context.h"

namespace quire {

struct RequestTrace {
  struct Continuation {
    RequestTimes times;
    int64_t num_cached_tokens = 0;
    int64_t num_generated = 0;  // up to the one that completed a stop string
    int32_t num_preemptions = 0;
    FinishReason reason = FinishReason::kNone;  // kNone: it has not ended
    bool has_stop_string = false;
  };

  TraceContext context;
  SpanId span_id;
  absl::Time arrived;
  absl::Time ended;  // when the last part of its answer was given to the transport
  absl::StatusCode status = absl::StatusCode::kOk;
  bool is_chat = false;
  std::string request_id;
  std::string model;  // as the caller called it, or the first name
  // Set once the request is known to be sound.
  std::optional<SamplingParams> sampling;
  int64_t max_tokens = 0;
  int64_t num_prompt_tokens = 0;
  // Set once the engine has the request.
  std::vector<Continuation> continuations;

  // One event of the engine's; `times` belongs to kFinished.
  void Note(const SequenceEvent& event, const RequestTimes* times);
  // The answer's end; only the first one counts.
  void End(absl::StatusCode code, absl::Time now);

  // How the request ended. A request that its caller ended counts as cancelled, though nobody was
  // told.
  absl::StatusCode outcome() const;
  int64_t num_spans() const;
};

}  // namespace quire
