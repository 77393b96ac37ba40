// traceparent and tracestate: whatever they hold, what is taken of them is a trace that can be
// written and read again, within bounds. Input: headers, "name: value" on a line each.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/base/check.h"
#include "server/trace/trace_context.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {

std::vector<std::string> Seeds() {
  const std::string parent = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  return {parent, absl::StrCat(parent, "\ntracestate: vendor=1,tenant@other=a b"),
          absl::StrCat(parent, "-more\ntracestate: a=1\ntracestate: b=2 , c=3"),
          "traceparent: cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more"};
}

std::vector<std::string> Dictionary() {
  return {"traceparent: ", "tracestate: ", "00-", "ff-", "-01", "00000000", "=", ",", "@", "\n"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  std::vector<std::pair<std::string, std::string>> headers;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<std::string, std::string> header =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    headers.push_back(header);
  }
  const TraceContext context = ReadTraceContext(headers);
  if (!context.exists()) {
    CHECK(!context.has_parent() && !context.is_sampled && context.state.empty()) << text;
    return 0;
  }
  ++fuzz::num_accepted;
  CHECK(context.has_parent()) << text;
  CHECK(absl::StrContains(text, HexText(context.trace_id))) << text;
  CHECK_LE(context.state.size(), kMaxTraceStateBytes);
  const std::string again = absl::StrCat("00-", HexText(context.trace_id), "-",
                                         HexText(context.parent_id), "-0", context.is_sampled);
  const TraceContext copy = ReadTraceContext(std::vector<std::pair<std::string, std::string>>{
      {"traceparent", again}, {"tracestate", context.state}});
  CHECK(copy.trace_id == context.trace_id && copy.parent_id == context.parent_id &&
        copy.is_sampled == context.is_sampled && copy.state == context.state)
      << text;
  return 0;
}
