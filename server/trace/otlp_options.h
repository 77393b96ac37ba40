// OtlpOptions: where spans go and how they describe this process, from the settings and from
// OpenTelemetry's environment variables. Plain value.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/environment.h"
#include "server/base/host_port.h"

namespace quire {

struct OtlpOptions {
  HostPort server;
  bool uses_tls = false;
  std::string ca_file;      // of the CAs that sign the collector's certificate; empty: the system's
  double sample_ratio = 1;  // of requests whose caller has no trace
  std::vector<std::pair<std::string, std::string>> headers;   // of every call
  std::vector<std::pair<std::string, std::string>> resource;  // attributes of this process

  std::string origin() const;  // "http://collector:4317"
};

// `endpoint`, of --otlp-traces-endpoint, is a URL: http:// and grpc:// for a connection without
// TLS, https:// and grpcs:// with it; the port is 4317 unless the URL has another. Reads
// OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, and OTEL_EXPORTER_OTLP_[TRACES_]HEADERS and
// _CERTIFICATE. OUT_OF_RANGE names the setting or variable to change.
absl::StatusOr<OtlpOptions> ReadOtlpOptions(absl::string_view endpoint, double sample_ratio,
                                            const ReadVariable& variable = ReadEnvironment);

}  // namespace quire
