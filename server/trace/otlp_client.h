// OtlpClient: OpenTelemetry's TraceService/Export, a gRPC call: HTTP/2 with or without TLS, a
// connection for each call, one at a time. One thread, except EndBy.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/trace/otlp_options.h"
#include "server/wire/client/client_connection.h"
#include "server/wire/client/io_loop.h"
#include "server/wire/client/server_address.h"

namespace quire {

class OtlpClient {
 public:
  explicit OtlpClient(const OtlpOptions& options);
  OtlpClient(const OtlpClient&) = delete;
  OtlpClient& operator=(const OtlpClient&) = delete;

  // Sends an ExportTraceServiceRequest. Returns the ExportTraceServiceResponse, or the collector's
  // status, or the reason why it gave none: UNAVAILABLE, DEADLINE_EXCEEDED.
  absl::StatusOr<std::string> Export(const std::string& request);

  // The call under way and all further ones end at `deadline`; any thread.
  void EndBy(absl::Time deadline);

 private:
  absl::StatusOr<ServerAddress> FindCollector(absl::Time deadline);
  absl::Status RunUntil(absl::Time deadline, absl::FunctionRef<bool()> is_done);

  const HostPort server_;
  const bool uses_tls_;
  const std::string ca_file_;
  HeaderList headers_;
  IoLoop loop_;
  std::atomic<int64_t> end_by_ns_{std::numeric_limits<int64_t>::max()};  // of MonotonicNow's
};

}  // namespace quire
