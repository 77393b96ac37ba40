#include "tools/client/failure.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/client/credentials.h"
#include "tools/client/exit_codes.h"
#include "tools/client/grpc_log.h"
#include "tools/client/output/terminal_text.h"

namespace quire::client {

namespace {

constexpr char kOtherAddress[] = "give another address with --target or QUIRE_TARGET";

// Describes a failure at an address of https://. gRPC's log knows the reason, and at times the
// status does.
std::string DescribeTlsFailure(const std::string& message, const std::string& target) {
  using absl::StrContains;
  const std::string reasons = absl::StrCat(message, "; ", KeptGrpcErrors());
  const std::string no_tls = absl::StrCat("no TLS with ", target, ": ");
  if (StrContains(reasons, "certificate verify failed") ||
      StrContains(reasons, "CERTIFICATE_VERIFY_FAILED")) {
    return absl::StrCat(no_tls, "its certificate has expired, or no CA that is trusted here has ",
                        "signed it; name the CA's file with ", kCaVariable);
  }
  if (StrContains(reasons, "Hostname Verification") || StrContains(reasons, "Peer name")) {
    return absl::StrCat(no_tls, "its certificate is for another host name; write the name that ",
                        "the certificate has");
  }
  if (StrContains(reasons, "nvalid private key")) {
    return absl::StrCat(no_tls, kCertificateKeyVariable, " does not fit ", kCertificateVariable);
  }
  if (StrContains(reasons, "root certificate")) {
    return absl::StrCat(no_tls, kCaVariable, " has no certificate that can be read");
  }
  if (StrContains(reasons, "alert")) {
    return absl::StrCat(no_tls, "the server wants a certificate of this client that its CA has ",
                        "signed; name it with ", kCertificateVariable, " and ",
                        kCertificateKeyVariable);
  }
  if (StrContains(reasons, "wrong version number") || StrContains(message, "empty address list") ||
      StrContains(reasons, "andshake") || StrContains(message, "Socket closed") ||
      StrContains(message, "onnection reset")) {
    return absl::StrCat(no_tls, "what listens there does not speak TLS (then write http://), or ",
                        "wants a certificate of this client (", kCertificateVariable, " and ",
                        kCertificateKeyVariable, ")");
  }
  return "";
}

// gRPC makes these sentences itself when it gets no answer from a gRPC server; a server's own
// sentences are passed on as they are.
std::string DescribeNoServer(const std::string& message, const std::string& target) {
  using absl::StrContains;
  if (StrContains(message, "DNS resolution failed") ||
      StrContains(message, "Domain name not found")) {
    return absl::StrCat("the host name of ", target, " is unknown; ", kOtherAddress);
  }
  if (StrContains(message, "Connection refused")) {
    return absl::StrCat("nothing listens at ", target,
                        ". Is a server running there? Start one with quire-server, or ",
                        kOtherAddress);
  }
  const bool is_tls = absl::StartsWith(target, kTlsPrefix);
  if (is_tls) {
    std::string tls_failure = DescribeTlsFailure(message, target);
    if (!tls_failure.empty()) return tls_failure;
  }
  const bool broken =
      StrContains(message, "http1.x") || StrContains(message, "Failed parsing HTTP/2") ||
      StrContains(message, "Socket closed") || StrContains(message, "Connection reset") ||
      StrContains(message, "Broken pipe") || StrContains(message, "settings frame") ||
      StrContains(message, "SETTINGS") || StrContains(message, "Handshake") ||
      StrContains(message, "handshake") || StrContains(message, "HTTP status") ||
      StrContains(message, "Received http2 header");
  if (broken && StrContains(message, "failed to connect")) {
    return absl::StrCat("what listens at ", target, " is not a Quire gRPC server",
                        is_tls ? "" : absl::StrCat(", or wants TLS (https://", target, ")"), "; ",
                        kOtherAddress);
  }
  if (StrContains(message, "failed to connect")) {
    return absl::StrCat("cannot reach ", target, " (", message, "); ", kOtherAddress);
  }
  return "";
}

}  // namespace

std::string DescribeFailure(const absl::Status& status, const std::string& target) {
  const std::string message = TerminalSafe(absl::StrReplaceAll(status.message(), {{"\n", "; "}}));
  if (status.code() == absl::StatusCode::kUnavailable) {
    std::string no_server = DescribeNoServer(message, target);
    if (!no_server.empty()) return no_server;
  }
  if (status.code() == absl::StatusCode::kUnimplemented) {
    return absl::StrCat("the server at ", target,
                        " does not know this call: it is another gRPC server or another version of "
                        "Quire (UNIMPLEMENTED",
                        message.empty() ? "" : ": ", message, ")");
  }
  const char* advice = "";
  if (status.code() == absl::StatusCode::kUnauthenticated) {
    advice =
        !Key().empty() ? "; put another into QUIRE_API_KEY" : "; put your key into QUIRE_API_KEY";
  }
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ",
                      message.empty() ? "the server gave no reason" : message, advice);
}

int FailureExitCode(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ? kNotServing : kCallFailed;
}

int ReportFailure(const absl::Status& status, const std::string& target) {
  std::fprintf(stderr, "quire: %s\n", DescribeFailure(status, target).c_str());
  return FailureExitCode(status);
}

int Refuse(const std::string& problem) {
  std::fprintf(stderr, "quire: %s\n", problem.c_str());
  return kUsage;
}

}  // namespace quire::client
