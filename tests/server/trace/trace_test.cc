// Traces: the W3C's headers, what spans say of a request, what the settings and the environment
// say, and that a collector which is away costs only spans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "server/trace/otlp_options.h"
#include "server/trace/request_spans.h"
#include "server/trace/trace_context.h"
#include "server/trace/trace_exporter.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Headers = std::vector<std::pair<std::string, std::string>>;
using Span = ::opentelemetry::proto::trace::v1::Span;

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContextTest, ASoundParent) {
  const TraceContext context = ReadTraceContext(Headers{{"a", "b"}, {"traceparent", kParent}});
  EXPECT_TRUE(context.exists());
  EXPECT_EQ(HexText(context.trace_id), kTraceId);
  EXPECT_EQ(HexText(context.parent_id), "00f067aa0ba902b7");
  EXPECT_TRUE(context.is_sampled);
  EXPECT_EQ(context.state, "");
}

// Cases of the W3C's test suite.
TEST(TraceContextTest, WhatIsAParent) {
  const struct {
    std::string text;
    bool exists;
    bool is_sampled;
  } kCases[] = {
      {kParent, true, true},
      {absl::StrCat(" ", kParent, "\t"), true, true},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", true, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02", true, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", true, true},
      {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true, true},
      {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes", true, true},
      {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-", false, false},
      {"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, false},
      {"0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, false},
      {".0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, false},
      {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false, false},
      {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e47367-00f067aa0ba902b7-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e473.-00f067aa0ba902b7-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b.-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-.0", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false, false},
      {"00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01", false, false},
      {"", false, false},
      {std::string(100'000, '0'), false, false},
  };
  for (const auto& [text, exists, is_sampled] : kCases) {
    const TraceContext context = ReadTraceContext(Headers{{"traceparent", text}});
    EXPECT_EQ(context.exists(), exists) << text;
    EXPECT_EQ(context.is_sampled, is_sampled) << text;
  }
}

TEST(TraceContextTest, TwoParentsAreNone) {
  EXPECT_FALSE(
      ReadTraceContext(Headers{{"traceparent", kParent}, {"traceparent", kParent}}).exists());
}

std::string StateOf(const std::vector<std::string>& values) {
  Headers headers = {{"traceparent", kParent}};
  for (const std::string& value : values) headers.emplace_back("tracestate", value);
  const TraceContext context = ReadTraceContext(headers);
  EXPECT_TRUE(context.exists());  // whatever the state
  return context.state;
}

TEST(TraceContextTest, WhatIsAState) {
  EXPECT_EQ(StateOf({"foo=1"}), "foo=1");
  EXPECT_EQ(StateOf({"foo=1,bar=2", "baz=3"}), "foo=1,bar=2,baz=3");
  EXPECT_EQ(StateOf({"foo=1 \t , \t bar=2, "}), "foo=1 \t , \t bar=2, ");
  EXPECT_EQ(StateOf({"t61rcwkgmze@0d-v=1"}), "");  // a vendor begins with a letter
  EXPECT_EQ(StateOf({"0t61rcwkgmze@vendor=a b"}), "0t61rcwkgmze@vendor=a b");
  for (const char* none : {"foo", "=1", "foo=", "foo =1", "FOO=1", "foo@=1", "@foo=1", "foo@@bar=1",
                           "foo=1=2", "foo=1,foo=2", "foo=\x01", "0foo=1", "", ",,", "foo.bar=1"}) {
    EXPECT_EQ(StateOf({none}), "") << none;
  }
  std::string many;
  for (int i = 0; i < 32; ++i) absl::StrAppend(&many, i == 0 ? "" : ",", "k", i, "=1");
  EXPECT_EQ(StateOf({many}), many);
  EXPECT_EQ(StateOf({many, "one=more"}), "");
  EXPECT_EQ(StateOf({"a=" + std::string(256, 'x')}), "a=" + std::string(256, 'x'));
  EXPECT_EQ(StateOf({"a=" + std::string(257, 'x')}), "");
  EXPECT_EQ(StateOf({std::string(256, 'a') + "=1"}), std::string(256, 'a') + "=1");
  EXPECT_EQ(StateOf({std::string(257, 'a') + "=1"}), "");
  EXPECT_EQ(StateOf({"a=" + std::string(250, 'x'), "b=" + std::string(250, 'x'), "c=123456"}), "");
}

absl::Time At(int milliseconds) {
  return absl::FromUnixSeconds(1'700'000'000) + absl::Milliseconds(milliseconds);
}

SequenceEvent Event(SequenceEvent::Kind kind, int32_t index) {
  SequenceEvent event;
  event.kind = kind;
  event.key.index = index;
  return event;
}

RequestTrace Recorded(int num_continuations) {
  RequestTrace trace;
  trace.context = ReadTraceContext(Headers{{"traceparent", kParent}, {"tracestate", "a=b"}});
  trace.span_id = NewSpanId();
  trace.arrived = At(0);
  trace.request_id = "one";
  trace.model = "demo";
  trace.sampling.emplace().n = num_continuations;
  trace.max_tokens = 7;
  trace.num_prompt_tokens = 5;
  trace.continuations.resize(num_continuations);
  return trace;
}

void Finish(RequestTrace& trace, int32_t index, const RequestTimes& times, FinishReason reason) {
  SequenceEvent end = Event(SequenceEvent::Kind::kFinished, index);
  end.reason = reason;
  end.num_preemptions = 2;
  trace.Note(end, &times);
}

google::protobuf::RepeatedPtrField<Span> SpansOf(const RequestTrace& trace) {
  google::protobuf::RepeatedPtrField<Span> spans;
  AppendSpans(trace, &spans);
  EXPECT_EQ(spans.size(), trace.num_spans());
  return spans;
}

std::map<std::string, std::string> AttributesOf(const Span& span) {
  std::map<std::string, std::string> attributes;
  for (const auto& attribute : span.attributes()) {
    attributes[attribute.key()] = attribute.value().ShortDebugString();
  }
  EXPECT_EQ(attributes.size(), static_cast<size_t>(span.attributes_size()));
  return attributes;
}

TEST(RequestSpansTest, TokensAfterAStopStringAreNotCounted) {
  RequestTrace trace = Recorded(1);
  SequenceEvent start = Event(SequenceEvent::Kind::kStarted, 0);
  start.num_cached_tokens = 3;
  trace.Note(start, nullptr);
  for (int i = 0; i < 3; ++i) trace.Note(Event(SequenceEvent::Kind::kToken, 0), nullptr);
  trace.continuations[0].has_stop_string = true;
  trace.Note(Event(SequenceEvent::Kind::kToken, 0), nullptr);
  Finish(trace, 0, {At(1), At(2), At(5), At(9)}, FinishReason::kAbort);
  trace.End(absl::StatusCode::kOk, At(10));
  trace.End(absl::StatusCode::kInternal, At(11));  // the first one counts
  const auto spans = SpansOf(trace);
  auto attributes = AttributesOf(spans[0]);
  EXPECT_EQ(attributes["gen_ai.usage.output_tokens"], "int_value: 3");
  EXPECT_EQ(attributes["gen_ai.usage.cache_read.input_tokens"], "int_value: 3");
  EXPECT_EQ(attributes["gen_ai.usage.input_tokens"], "int_value: 5");
  EXPECT_EQ(attributes["quire.preemptions"], "int_value: 2");
  EXPECT_THAT(attributes["gen_ai.response.finish_reasons"], HasSubstr("\"stop\""));
  EXPECT_EQ(attributes["gen_ai.latency.time_to_first_token"], "double_value: 0.005");
  EXPECT_EQ(attributes["gen_ai.latency.e2e"], "double_value: 0.01");
  EXPECT_EQ(spans[0].status().code(), ::opentelemetry::proto::trace::v1::Status::STATUS_CODE_UNSET);
  ASSERT_EQ(spans.size(), 4);
  EXPECT_EQ(spans[2].name(), "prefill");
  EXPECT_EQ(spans[2].start_time_unix_nano(), static_cast<uint64_t>(absl::ToUnixNanos(At(2))));
  EXPECT_EQ(spans[2].end_time_unix_nano(), static_cast<uint64_t>(absl::ToUnixNanos(At(5))));
  EXPECT_EQ(spans[2].parent_span_id(), spans[0].span_id());
  EXPECT_EQ(spans[2].trace_state(), "a=b");
}

TEST(RequestSpansTest, WhatEndsEarlyHasTheStagesThatItCameTo) {
  RequestTrace trace = Recorded(3);
  Finish(trace, 0, {At(1), absl::Time(), absl::Time(), At(4)}, FinishReason::kAbort);
  Finish(trace, 1, {At(1), At(2), absl::Time(), At(4)}, FinishReason::kAbort);
  trace.End(absl::StatusCode::kOk, At(5));  // the third one never ended
  const auto spans = SpansOf(trace);
  std::vector<std::string> names;
  for (const Span& span : spans) names.push_back(span.name());
  EXPECT_THAT(names, ElementsAre("llm_request", "queue", "queue", "prefill"));
  EXPECT_EQ(spans[0].status().message(), "CANCELLED");
  EXPECT_EQ(spans[1].end_time_unix_nano(), static_cast<uint64_t>(absl::ToUnixNanos(At(4))));
  EXPECT_EQ(AttributesOf(spans[3])["quire.continuation"], "int_value: 1");
  EXPECT_EQ(AttributesOf(spans[0]).count("gen_ai.latency.time_to_first_token"), 0u);
}

TEST(RequestSpansTest, AClockThatWasSetBack) {
  RequestTrace trace = Recorded(1);
  Finish(trace, 0, {At(9), At(7), At(8), At(2)}, FinishReason::kLength);
  trace.End(absl::StatusCode::kOk, At(-5));
  for (const Span& span : SpansOf(trace)) {
    EXPECT_GE(span.end_time_unix_nano(), span.start_time_unix_nano()) << span.name();
  }
  EXPECT_EQ(AttributesOf(SpansOf(trace)[0])["gen_ai.latency.e2e"], "double_value: 0");
}

absl::StatusOr<OtlpOptions> Read(const std::string& endpoint,
                                 const std::map<std::string, std::string>& variables = {}) {
  return ReadOtlpOptions(endpoint, 0.5, [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

TEST(OtlpOptionsTest, Endpoints) {
  EXPECT_EQ(Read("http://collector")->origin(), "http://collector:4317");
  EXPECT_EQ(Read("grpc://10.0.0.1:5000/")->origin(), "http://10.0.0.1:5000");
  EXPECT_EQ(Read("https://[::1]:4317")->origin(), "https://[::1]:4317");
  EXPECT_TRUE(Read("grpcs://a")->uses_tls);
  EXPECT_FALSE(Read("grpc://a")->uses_tls);
  for (const char* none : {"", "collector:4317", "http://", "http:// a", "http://a:99999",
                           "http://a/v1", "http://a?b", "http://u@a", "unix:///tmp/a", "ftp://a"}) {
    const absl::Status status = Read(none).status();
    EXPECT_TRUE(absl::IsOutOfRange(status)) << none;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--otlp-traces-endpoint: ")) << none;
  }
}

TEST(OtlpOptionsTest, Variables) {
  const auto options = Read("http://a", {{"OTEL_SERVICE_NAME", "mine"},
                                         {"OTEL_RESOURCE_ATTRIBUTES", "a=1%2C2, b = %C3%BC"},
                                         {"OTEL_EXPORTER_OTLP_HEADERS", "other=1"},
                                         {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "X-Key=a%3Db"},
                                         {"OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->headers, ElementsAre(Pair("x-key", "a=b")));
  EXPECT_THAT(options->resource,
              ElementsAre(Pair("a", "1,2"), Pair("b", "\xC3\xBC"), Pair("service.name", "mine"),
                          Pair("service.version", QUIRE_VERSION)));
  EXPECT_EQ(options->ca_file, "ca.pem");
  EXPECT_THAT(Read("http://a", {{"OTEL_RESOURCE_ATTRIBUTES", "service.name=x,service.version=y"}})
                  ->resource,
              ElementsAre(Pair("service.name", "x"), Pair("service.version", "y")));
  for (const char* none : {"a", "=b", "a=%2", "a=%ZZ", "a=%0A", "grpc-timeout=1S", "a b=c"}) {
    const absl::Status status = Read("http://a", {{"OTEL_EXPORTER_OTLP_HEADERS", none}}).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("OTEL_EXPORTER_OTLP_HEADERS: ")) << none;
  }
  EXPECT_FALSE(Read("http://a", {{"OTEL_RESOURCE_ATTRIBUTES", "a=%FF"}}).ok());
}

class TraceExporterTest : public testing::Test {
 protected:
  // Nobody listens on port 1 of this machine.
  OtlpOptions Nowhere(double ratio) {
    OtlpOptions options = *Read("http://127.0.0.1:1");
    options.sample_ratio = ratio;
    return options;
  }

  void Record(TraceExporter& exporter) {
    RecordedTrace trace =
        exporter.Record(ReadTraceContext(Headers{{"traceparent", kParent}}), At(0));
    ASSERT_NE(trace, nullptr);
    trace->continuations.resize(1);
    Finish(*trace, 0, {At(1), At(2), At(502), At(9000)}, FinishReason::kLength);
    trace->End(absl::StatusCode::kOk, At(9001));
  }

  EngineMetrics engine_{1024};
  ServerMetrics metrics_;
  Exemplars exemplars_{engine_};
};

TEST_F(TraceExporterTest, TheCallerSaysWhetherItsRequestsAreRecorded) {
  TraceExporter exporter(Nowhere(0), &metrics_, &exemplars_);
  TraceContext callers = ReadTraceContext(Headers{{"traceparent", kParent}});
  EXPECT_NE(exporter.TraceOf(callers).trace_id, TraceId());
  callers.is_sampled = false;
  EXPECT_EQ(HexText(exporter.TraceOf(callers).trace_id), kTraceId);
  EXPECT_EQ(exporter.Record(exporter.TraceOf(callers), At(0)), nullptr);
  EXPECT_FALSE(exporter.TraceOf({}).exists());
}

TEST_F(TraceExporterTest, TheRatioSaysItForTheOthers) {
  TraceExporter all(Nowhere(1), &metrics_, &exemplars_);
  TraceExporter some(Nowhere(0.25), &metrics_, &exemplars_);
  int num_sampled = 0;
  for (int i = 0; i < 4000; ++i) {
    EXPECT_TRUE(all.TraceOf({}).is_sampled);
    const TraceContext trace = some.TraceOf({});
    EXPECT_EQ(trace.exists(), trace.is_sampled);
    EXPECT_FALSE(trace.has_parent());
    num_sampled += trace.is_sampled ? 1 : 0;
  }
  EXPECT_NEAR(num_sampled, 1000, 200);  // seven standard deviations
}

TEST_F(TraceExporterTest, WhatTheQueueDoesNotHoldIsCounted) {
  constexpr uint64_t kNumRequests = 4000;
  {
    TraceExporter exporter(Nowhere(1), &metrics_, &exemplars_);
    for (uint64_t i = 0; i < kNumRequests; ++i) Record(exporter);
    EXPECT_GT(metrics_.num_spans(SpanOutcome::kQueueFull), 0u);
  }
  // Nothing is lost without being counted, though the end did not wait for the collector.
  EXPECT_EQ(
      metrics_.num_spans(SpanOutcome::kQueueFull) + metrics_.num_spans(SpanOutcome::kExportFailed),
      4 * kNumRequests);
  EXPECT_EQ(metrics_.num_spans(SpanOutcome::kExported), 0u);
}

TEST_F(TraceExporterTest, ExemplarsLieInTheirBuckets) {
  TraceExporter exporter(Nowhere(1), &metrics_, &exemplars_);
  Record(exporter);
  const std::vector<double> bounds = engine_.prefill_time.Read().bounds;
  const std::vector<Exemplar> found = exemplars_.Of(RequestTime::kPrefill);
  ASSERT_EQ(found.size(), bounds.size() + 1);
  int num_found = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].trace_id.empty()) continue;
    ++num_found;
    EXPECT_EQ(found[i].trace_id, kTraceId);
    EXPECT_DOUBLE_EQ(found[i].value, 0.5);
    EXPECT_LE(found[i].value, bounds[i]);
    EXPECT_GT(found[i].value, i > 0 ? bounds[i - 1] : 0);
  }
  EXPECT_EQ(num_found, 1);
}

}  // namespace
}  // namespace quire
