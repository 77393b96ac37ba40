#include "server/trace/request_spans.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "kernels/base/clock.h"

namespace quire {

namespace {

namespace otlp = ::opentelemetry::proto;

using Span = otlp::trace::v1::Span;
using Spans = google::protobuf::RepeatedPtrField<Span>;

// Of Span.flags, beside the W3C's.
constexpr uint32_t kSampled = 1, kIsRemoteIsKnown = 1u << 8, kIsRemote = 1u << 9;

template <size_t N>
std::string Bytes(const std::array<uint8_t, N>& id) {
  return {reinterpret_cast<const char*>(id.data()), N};
}

otlp::common::v1::AnyValue& Attribute(absl::string_view key, Span& span) {
  otlp::common::v1::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(std::string(key));
  return *attribute.mutable_value();
}

void AddText(absl::string_view key, absl::string_view value, Span& span) {
  if (!value.empty()) Attribute(key, span).set_string_value(std::string(value));
}

void AddCount(absl::string_view key, int64_t value, Span& span) {
  Attribute(key, span).set_int_value(value);
}

void AddReal(absl::string_view key, double value, Span& span) {
  Attribute(key, span).set_double_value(value);
}

void AddSeconds(absl::string_view key, absl::Duration value, Span& span) {
  AddReal(key, std::max(0.0, absl::ToDoubleSeconds(value)), span);
}

absl::string_view ReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
    case FinishReason::kError:
    case FinishReason::kNone:
      return "error";
  }
  return "error";
}

void SetTimes(absl::Time begin, absl::Time end, Span& span) {
  const absl::Time wall_begin = ToWallTime(begin);
  const absl::Duration length = std::max(absl::ZeroDuration(), end - begin);
  span.set_start_time_unix_nano(static_cast<uint64_t>(absl::ToUnixNanos(wall_begin)));
  span.set_end_time_unix_nano(static_cast<uint64_t>(absl::ToUnixNanos(wall_begin + length)));
}

// "RESOURCE_EXHAUSTED" -> "resource_exhausted"; never the sentence, which may quote the request.
void SetStatus(absl::StatusCode code, Span& span) {
  if (code == absl::StatusCode::kOk) return;
  const std::string name = absl::StatusCodeToString(code);
  span.mutable_status()->set_code(otlp::trace::v1::Status::STATUS_CODE_ERROR);
  span.mutable_status()->set_message(name);
  AddText("error.type", absl::AsciiStrToLower(name), span);
}

// Adds the fields that the request asked for.
void AddRequest(const RequestTrace& trace, Span& span) {
  AddText("gen_ai.operation.name", trace.is_chat ? "chat" : "text_completion", span);
  AddText("gen_ai.provider.name", "quire", span);
  AddText("gen_ai.request.id", trace.request_id, span);
  AddText("gen_ai.request.model", trace.model, span);
  if (!trace.sampling.has_value()) return;
  AddText("gen_ai.response.id", trace.request_id, span);
  AddCount("gen_ai.request.max_tokens", trace.max_tokens, span);
  AddReal("gen_ai.request.temperature", trace.sampling->temperature, span);
  AddReal("gen_ai.request.top_p", trace.sampling->top_p, span);
  AddCount("gen_ai.request.n", trace.sampling->n, span);
}

// Times of the continuation that had its first token first, as a caller sees the request.
void AddLatencies(const RequestTrace& trace, Span& span) {
  AddSeconds("gen_ai.latency.e2e", trace.ended - trace.arrived, span);
  const RequestTimes* first = nullptr;
  for (const auto& [times, cached, generated, preemptions, reason, stopped] : trace.continuations) {
    if (times.first_token == absl::Time()) continue;
    if (first == nullptr || times.first_token < first->first_token) first = &times;
  }
  if (first == nullptr) return;
  AddSeconds("gen_ai.latency.time_to_first_token", first->first_token - trace.arrived, span);
  AddSeconds("gen_ai.latency.time_in_queue", first->first_scheduled - first->submitted, span);
  AddSeconds("gen_ai.latency.time_in_model_prefill", first->first_token - first->first_scheduled,
             span);
  AddSeconds("gen_ai.latency.time_in_model_decode", first->finished - first->first_token, span);
  AddSeconds("gen_ai.latency.time_in_model_inference", first->finished - first->first_scheduled,
             span);
}

void AddUsage(const RequestTrace& trace, Span& span) {
  int64_t num_generated = 0, num_cached_tokens = 0, num_preemptions = 0;
  auto& reasons = *Attribute("gen_ai.response.finish_reasons", span).mutable_array_value();
  for (const RequestTrace::Continuation& continuation : trace.continuations) {
    num_generated += continuation.num_generated;
    num_cached_tokens = std::max(num_cached_tokens, continuation.num_cached_tokens);
    num_preemptions += continuation.num_preemptions;
    reasons.add_values()->set_string_value(std::string(ReasonName(continuation.reason)));
  }
  // By the names of today's conventions, and by those of vLLM.
  for (const char* key : {"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"}) {
    AddCount(key, trace.num_prompt_tokens, span);
  }
  for (const char* key : {"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"}) {
    AddCount(key, num_generated, span);
  }
  AddCount("gen_ai.usage.cache_read.input_tokens", num_cached_tokens, span);
  AddCount("gen_ai.usage.num_sequences", static_cast<int64_t>(trace.continuations.size()), span);
  AddCount("quire.preemptions", num_preemptions, span);
}

void AppendStage(const RequestTrace& trace, absl::string_view name, size_t index, absl::Time begin,
                 absl::Time end, Spans* spans) {
  Span& span = *spans->Add();
  span.set_trace_id(Bytes(trace.context.trace_id));
  span.set_span_id(Bytes(NewSpanId()));
  span.set_parent_span_id(Bytes(trace.span_id));
  span.set_trace_state(trace.context.state);
  span.set_flags(kSampled | kIsRemoteIsKnown);
  span.set_name(std::string(name));
  span.set_kind(Span::SPAN_KIND_INTERNAL);
  SetTimes(begin, end, span);
  if (trace.continuations.size() > 1) {
    AddCount("quire.continuation", static_cast<int64_t>(index), span);
  }
}

// A continuation that ended early has the stages that it came to.
void AppendStages(const RequestTrace& trace, size_t index, Spans* spans) {
  const RequestTimes& times = trace.continuations[index].times;
  const auto or_end = [&](absl::Time time) { return time == absl::Time() ? times.finished : time; };
  AppendStage(trace, "queue", index, times.submitted, or_end(times.first_scheduled), spans);
  if (times.first_scheduled == absl::Time()) return;
  AppendStage(trace, "prefill", index, times.first_scheduled, or_end(times.first_token), spans);
  if (times.first_token == absl::Time()) return;
  AppendStage(trace, "decode", index, times.first_token, times.finished, spans);
}

}  // namespace

void AppendSpans(const RequestTrace& trace, Spans* spans) {
  Span& span = *spans->Add();
  span.set_trace_id(Bytes(trace.context.trace_id));
  span.set_span_id(Bytes(trace.span_id));
  if (trace.context.has_parent()) span.set_parent_span_id(Bytes(trace.context.parent_id));
  span.set_trace_state(trace.context.state);
  span.set_flags(kSampled | kIsRemoteIsKnown | (trace.context.has_parent() ? kIsRemote : 0));
  span.set_name("llm_request");
  span.set_kind(Span::SPAN_KIND_SERVER);
  SetTimes(trace.arrived, trace.ended, span);
  AddRequest(trace, span);
  AddLatencies(trace, span);
  if (!trace.continuations.empty()) AddUsage(trace, span);
  SetStatus(trace.outcome(), span);
  for (size_t i = 0; i < trace.continuations.size(); ++i) {
    if (trace.continuations[i].reason != FinishReason::kNone) AppendStages(trace, i, spans);
  }
}

}  // namespace quire
