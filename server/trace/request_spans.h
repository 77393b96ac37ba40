// The spans of one request: "llm_request" and below it, for each continuation, "queue", "prefill"
// and "decode". Attributes have the names of OpenTelemetry's GenAI conventions and of vLLM;
// docs/tracing.md lists them. Pure, except for the ids of spans; any thread.
#pragma once

#include "opentelemetry/proto/trace/v1/trace.pb.h"
#include "server/trace/request_trace.h"

namespace quire {

void AppendSpans(const RequestTrace& trace,
                 google::protobuf::RepeatedPtrField<opentelemetry::proto::trace::v1::Span>* spans);

}  // namespace quire
