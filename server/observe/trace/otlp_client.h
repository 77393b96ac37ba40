// OtlpClient: OpenTelemetry's TraceService/Export, a gRPC call, on libcurl: HTTP/2 with or without
// TLS, a connection for each call, one at a time. One thread, but for EndBy.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/observe/trace/otlp_options.h"

using CURL = void;  // as in curl/curl.h
using CURLM = void;
struct curl_slist;

namespace quire {

class OtlpClient {
 public:
  explicit OtlpClient(const OtlpOptions& options);
  ~OtlpClient();
  OtlpClient(const OtlpClient&) = delete;
  OtlpClient& operator=(const OtlpClient&) = delete;

  // Sends an ExportTraceServiceRequest; returns the ExportTraceServiceResponse, or the collector's
  // status, or what kept it from giving one: UNAVAILABLE, DEADLINE_EXCEEDED.
  absl::StatusOr<std::string> Export(const std::string& request);

  // The call under way and all further ones end at `deadline`; any thread.
  void EndBy(absl::Time deadline);

 private:
  absl::Status Perform();

  CURL* const easy_;
  CURLM* const multi_;
  curl_slist* headers_ = nullptr;
  std::atomic<int64_t> end_by_ns_{std::numeric_limits<int64_t>::max()};  // of MonotonicNow's
};

}  // namespace quire
