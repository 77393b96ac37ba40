// AccessEntry: what the log says of one call, and in which form. It never has what was asked or
// answered. Plain value; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace quire {

struct AccessEntry {
  std::string request_id;  // empty: a method without one
  std::string trace_id;    // in hexadecimal; empty: the call has no trace
  std::string principal;
  std::string peer;    // address
  std::string method;  // "/quire.v1.Inference/Generate"
  std::string model;   // as the client called it; empty: the client named none
  absl::StatusCode status = absl::StatusCode::kOk;
  double total_ms = 0;  // first byte of the call to its end
  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;

  // Only for a request that the engine has accepted.
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> cached_tokens;     // prompt tokens that were found in the prefix cache
  std::optional<int64_t> generated_tokens;  // in all continuations
  // These belong to the continuation that ended last.
  std::string finish_reason;  // "stop", "length", "abort"
  std::optional<double> queue_ms;
  std::optional<double> prefill_ms;
  std::optional<double> decode_ms;
};

// "access id=... principal=... method=... status=OK ...": values that are not plain words are JSON
// strings, so that nobody's id can look like another field or line.
std::string AccessText(const AccessEntry& entry);

// The same as the members of a JSON object, without its braces.
std::string AccessJson(const AccessEntry& entry);

}  // namespace quire
