#include "engine/metrics/meters.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace quire {

namespace {

// Never negative, also when the machine's clock was set back.
double SecondsBetween(absl::Time begin, absl::Time end) {
  return std::max(0.0, absl::ToDoubleSeconds(end - begin));
}

bool IsSet(absl::Time time) { return time != absl::Time(); }

StepKind KindOf(const SchedulerOutput& output) {
  int64_t num_decodes = 0;
  for (const ScheduledSequence& sequence : output.sequences) {
    if (sequence.num_new == 1 && sequence.start >= sequence.num_prompt_tokens) ++num_decodes;
  }
  if (num_decodes == 0) return StepKind::kPrompt;
  return num_decodes == static_cast<int64_t>(output.sequences.size()) ? StepKind::kDecode
                                                                      : StepKind::kMixed;
}

}  // namespace

RequestMeter::RequestMeter(const Request& request, absl::Time submitted)
    : arrived_(std::min(request.arrived, submitted)),
      submitted_(submitted),
      num_unfinished_(request.sampling.n),
      continuations_(static_cast<size_t>(request.sampling.n)) {}

void RequestMeter::Count(const Request& request, const SequenceEvent& event, absl::Time now,
                         EngineMetrics* metrics) {
  Continuation& sequence = continuations_[static_cast<size_t>(event.key.index)];
  switch (event.kind) {
    case SequenceEvent::Kind::kStarted:
      sequence.first_scheduled = now;
      sequence.num_cached_tokens = event.num_cached_tokens;
      break;
    case SequenceEvent::Kind::kToken:
      CountToken(request, sequence, now, metrics);
      break;
    case SequenceEvent::Kind::kPromptLogprobs:
      break;
    case SequenceEvent::Kind::kFinished:
      CountEnd(request, event.reason, sequence, now, metrics);
      break;
  }
}

void RequestMeter::CountToken(const Request& request, Continuation& sequence, absl::Time now,
                              EngineMetrics* metrics) const {
  if (sequence.num_generated++ == 0) {
    sequence.first_token = now;
    metrics->prompt_tokens.Add(request.prompt.size());
    metrics->cached_prompt_tokens.Add(static_cast<uint64_t>(sequence.num_cached_tokens));
    metrics->time_to_first_token.Observe(SecondsBetween(arrived_, now));
  } else {
    metrics->inter_token_latency.Observe(SecondsBetween(sequence.last_token, now));
  }
  sequence.last_token = now;
  metrics->generated_tokens.Add();
}

void RequestMeter::CountEnd(const Request& request, FinishReason reason, Continuation& sequence,
                            absl::Time now, EngineMetrics* metrics) {
  CHECK(!sequence.is_finished);
  sequence.is_finished = true;
  metrics->finished[static_cast<size_t>(reason)].Add();
  metrics->e2e_latency.Observe(SecondsBetween(arrived_, now));
  if (IsSet(sequence.first_scheduled)) {
    metrics->queue_time.Observe(SecondsBetween(submitted_, sequence.first_scheduled));
  }
  if (sequence.num_generated > 0) {
    const double decode_time = SecondsBetween(sequence.first_token, sequence.last_token);
    metrics->prefill_time.Observe(SecondsBetween(sequence.first_scheduled, sequence.first_token));
    metrics->decode_time.Observe(decode_time);
    metrics->inference_time.Observe(SecondsBetween(sequence.first_scheduled, sequence.last_token));
    if (sequence.num_generated > 1) {
      metrics->time_per_output_token.Observe(decode_time /
                                             static_cast<double>(sequence.num_generated - 1));
    }
  }
  metrics->request_prompt_tokens.Observe(static_cast<double>(request.prompt.size()));
  metrics->request_generated_tokens.Observe(static_cast<double>(sequence.num_generated));
  metrics->request_max_tokens.Observe(static_cast<double>(request.stop.max_tokens));
  longest_ = std::max(longest_, sequence.num_generated);
  if (--num_unfinished_ > 0) return;
  metrics->request_n.Observe(request.sampling.n);
  metrics->request_longest.Observe(static_cast<double>(longest_));
}

void RequestMeter::CountEnds(const Request& request, FinishReason reason, absl::Time now,
                             EngineMetrics* metrics) {
  for (Continuation& sequence : continuations_) {
    if (!sequence.is_finished) CountEnd(request, reason, sequence, now, metrics);
  }
}

void StepMeter::Begin(const SchedulerOutput& output, absl::Time now, EngineMetrics* metrics) {
  metrics->step_tokens.Observe(static_cast<double>(output.num_tokens));
  metrics->step_sequences.Observe(static_cast<double>(output.sequences.size()));
  in_flight_.push_back({KindOf(output), now});
}

void StepMeter::End(absl::Time now, EngineMetrics* metrics) {
  CHECK(!in_flight_.empty());
  const Step step = in_flight_.front();
  in_flight_.pop_front();
  metrics->step_seconds[static_cast<size_t>(step.kind)].Observe(
      SecondsBetween(std::max(step.submitted, last_end_), now));
  last_end_ = now;
}

}  // namespace quire
