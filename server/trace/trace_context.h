// TraceContext: the trace that a call belongs to, from the headers traceparent and tracestate of
// W3C's Trace Context. Plain value; pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace quire {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceContext {
  TraceId trace_id = {};    // all zero: no trace
  SpanId parent_id = {};    // the caller's span; all zero: none
  bool is_sampled = false;  // its spans must be recorded
  std::string state;        // tracestate, for readers of the spans

  bool exists() const { return trace_id != TraceId(); }
  bool has_parent() const { return parent_id != SpanId(); }
};

// A longer tracestate is left out; the W3C wants this much to be passed on.
inline constexpr size_t kMaxTraceStateBytes = 512;

// The caller's trace, from the headers of a call, with names in lower case. Nothing if traceparent
// is not there, is not sound or is there twice; a tracestate that is not sound is left out.
TraceContext ReadTraceContext(absl::Span<const std::pair<std::string, std::string>> headers);

// A new trace without a parent.
TraceContext NewTrace();
SpanId NewSpanId();

// In hexadecimal, as logs and headers have it.
std::string HexText(absl::Span<const uint8_t> id);

}  // namespace quire
