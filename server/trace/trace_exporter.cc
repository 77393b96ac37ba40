#include "server/trace/trace_exporter.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/clock.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "server/base/version.h"
#include "server/trace/request_spans.h"

namespace quire {

namespace {

namespace otlp = ::opentelemetry::proto;

constexpr int64_t kMaxBatchSpans = 512;
constexpr absl::Duration kBatchDelay = absl::Seconds(1);  // for which spans gather
// Between tries, twice as long after each failure, until one succeeds.
constexpr absl::Duration kFirstWait = absl::Milliseconds(500);
constexpr absl::Duration kMaxWait = absl::Seconds(30);
constexpr int kMaxTries = 5;  // of one batch

// A call that ended so may be made again.
bool IsPassing(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

uint64_t SampleBound(double ratio) {
  if (ratio >= 1) return ~uint64_t{0};
  return static_cast<uint64_t>(std::ldexp(ratio, 64));
}

std::string Message(const OtlpOptions& options,
                    const std::vector<std::unique_ptr<RequestTrace>>& batch) {
  otlp::collector::trace::v1::ExportTraceServiceRequest request;
  otlp::trace::v1::ResourceSpans& spans = *request.add_resource_spans();
  for (const auto& [key, value] : options.resource) {
    otlp::common::v1::KeyValue& attribute = *spans.mutable_resource()->add_attributes();
    attribute.set_key(key);
    attribute.mutable_value()->set_string_value(value);
  }
  otlp::trace::v1::ScopeSpans& scope = *spans.add_scope_spans();
  scope.mutable_scope()->set_name("quire");
  scope.mutable_scope()->set_version(kVersion);
  for (const auto& trace : batch) AppendSpans(*trace, scope.mutable_spans());
  return request.SerializeAsString();
}

// How many spans the collector did not want, though the call went well.
int64_t NumRejected(const std::string& answer) {
  otlp::collector::trace::v1::ExportTraceServiceResponse response;
  if (!response.ParseFromString(answer)) return 0;
  return response.partial_success().rejected_spans();
}

// Notes the request's times as exemplars of the engine's histograms, which measure by the same
// clocks.
void NoteExemplars(const RequestTrace& trace, Exemplars* exemplars) {
  const std::string trace_id = HexText(trace.context.trace_id), span_id = HexText(trace.span_id);
  for (const RequestTrace::Continuation& continuation : trace.continuations) {
    const RequestTimes& times = continuation.times;
    const auto note = [&](RequestTime which, absl::Time begin, absl::Time end) {
      if (begin == absl::Time() || end == absl::Time()) return;
      exemplars->Note(which, {.value = std::max(0.0, absl::ToDoubleSeconds(end - begin)),
                              .time = ToWallTime(times.finished),
                              .trace_id = trace_id,
                              .span_id = span_id});
    };
    note(RequestTime::kTimeToFirstToken, trace.arrived, times.first_token);
    note(RequestTime::kE2eLatency, trace.arrived, times.finished);
    note(RequestTime::kQueue, times.submitted, times.first_scheduled);
    note(RequestTime::kPrefill, times.first_scheduled, times.first_token);
    note(RequestTime::kDecode, times.first_token, times.finished);
    note(RequestTime::kInference, times.first_scheduled, times.finished);
  }
}

int64_t NumSpans(const std::vector<std::unique_ptr<RequestTrace>>& batch) {
  int64_t count = 0;
  for (const auto& trace : batch) count += trace->num_spans();
  return count;
}

}  // namespace

TraceExporter::TraceExporter(const OtlpOptions& options, ServerMetrics* metrics,
                             Exemplars* exemplars)
    : options_(options),
      sample_bound_(SampleBound(options.sample_ratio)),
      metrics_(metrics),
      exemplars_(exemplars),
      client_(options),
      thread_([this] { Run(); }) {}

TraceExporter::~TraceExporter() {
  client_.EndBy(MonotonicNow() + kFlushTime);
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    news_.Signal();
  }
  thread_.join();
}

TraceContext TraceExporter::TraceOf(TraceContext callers) const {
  if (callers.exists()) return callers;
  if (sample_bound_ == 0) return {};
  TraceContext trace = NewTrace();
  // As OpenTelemetry's samplers do, so that servers with the same ratio agree on a trace.
  uint64_t end = 0;
  for (size_t i = 8; i < trace.trace_id.size(); ++i) end = end << 8 | trace.trace_id[i];
  trace.is_sampled = end <= sample_bound_;
  return trace.is_sampled ? trace : TraceContext();
}

RecordedTrace TraceExporter::Record(TraceContext context, absl::Time arrived) {
  if (!context.is_sampled) return {};
  auto trace = std::make_unique<RequestTrace>();
  trace->context = std::move(context);
  trace->span_id = NewSpanId();
  trace->arrived = arrived;
  return {trace.release(), DeliverTrace{this}};
}

void DeliverTrace::operator()(RequestTrace* trace) const {
  exporter->Add(std::unique_ptr<RequestTrace>(trace));
}

void TraceExporter::Add(std::unique_ptr<RequestTrace> trace) {
  NoteExemplars(*trace, exemplars_);
  const int64_t num_spans = trace->num_spans();
  absl::MutexLock lock(&mutex_);
  if (num_queued_spans_ + num_spans > kMaxQueuedSpans) {
    metrics_->CountSpans(SpanOutcome::kQueueFull, num_spans);
    return;
  }
  num_queued_spans_ += num_spans;
  queue_.push_back(std::move(trace));
  news_.Signal();
}

void TraceExporter::Run() {
  pthread_setname_np(pthread_self(), "quire-traces");
  Traces batch;
  while (WaitForBatch(&batch)) Export(batch);
}

bool TraceExporter::WaitForBatch(Traces* batch) {
  batch->clear();
  absl::MutexLock lock(&mutex_);
  const auto has_any = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty();
  };
  const auto has_many = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || num_queued_spans_ >= kMaxBatchSpans;
  };
  news_.Await(&mutex_, absl::InfiniteFuture(), has_any);
  news_.Await(&mutex_, MonotonicNow() + kBatchDelay, has_many);
  for (int64_t num_spans = 0; !queue_.empty() && num_spans < kMaxBatchSpans;) {
    num_spans += queue_.front()->num_spans();
    num_queued_spans_ -= queue_.front()->num_spans();
    batch->push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return !batch->empty();
}

void TraceExporter::Export(const Traces& batch) {
  const int64_t num_spans = NumSpans(batch);
  const std::string message = Message(options_, batch);
  absl::Status status = absl::UnavailableError("the server ends before it could be reached");
  for (int i = 0; i < kMaxTries && WaitToTry(); ++i) {
    const absl::StatusOr<std::string> answer = client_.Export(message);
    if (answer.ok()) {
      num_failures_ = 0;
      const int64_t num_rejected = std::clamp<int64_t>(NumRejected(*answer), 0, num_spans);
      metrics_->CountSpans(SpanOutcome::kExported, num_spans - num_rejected);
      if (num_rejected > 0) CountDropped(num_rejected, absl::UnknownError("it did not want them"));
      return;
    }
    status = answer.status();
    if (!IsPassing(status.code())) break;
    ++num_failures_;
  }
  CountDropped(num_spans, status);
}

bool TraceExporter::WaitToTry() {
  absl::MutexLock lock(&mutex_);
  if (num_failures_ == 0) return true;
  if (stopping_) return false;
  const absl::Duration wait =
      std::min(kMaxWait, kFirstWait * std::exp2(std::min(num_failures_ - 1, 16)));
  // Servers that lost their collector together do not come back together.
  const double jitter = std::uniform_real_distribution<double>(0.8, 1.2)(random_);
  news_.Await(&mutex_, MonotonicNow() + wait * jitter,
              [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_; });
  return true;
}

void TraceExporter::CountDropped(int64_t num_spans, const absl::Status& why) {
  metrics_->CountSpans(SpanOutcome::kExportFailed, num_spans);
  if (!complaints_.Pass(MonotonicNow())) return;
  spdlog::warn("{} spans are lost, for {} does not take them: {} {}", num_spans, options_.origin(),
               absl::StatusCodeToString(why.code()), absl::CHexEscape(why.message()));
}

}  // namespace quire
