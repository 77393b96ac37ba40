#include "server/trace/otlp_client.h"

#include <algorithm>
#include <utility>

#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "server/base/version.h"
#include "server/wire/client/grpc_messages.h"
#include "server/wire/client/http2_client_connection.h"
#include "server/wire/client/server_lookup.h"
#include "server/wire/tls/client_context.h"

namespace quire {
namespace {

// As OpenTelemetry's exporters have it.
constexpr absl::Duration kCallTimeout = absl::Seconds(10);
constexpr size_t kMaxAnswerBytes = 64 << 10;
constexpr size_t kMaxSentenceBytes = 200;
constexpr char kMethod[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

class ExportAnswer final : public AnswerSink {
 public:
  void OnBody(std::string_view bytes) override {
    is_too_long_ = is_too_long_ || bytes.size() > kMaxAnswerBytes - body_.size();
    if (!is_too_long_) body_.append(bytes);
  }
  void OnEnd(const AnswerEnd& end) override {
    end_ = end;
    has_ended_ = true;
  }

  bool is_decided() const { return has_ended_ || is_too_long_; }

  // The answer's message, or why there is none.
  absl::StatusOr<std::string> Read() const {
    if (is_too_long_) return absl::UnavailableError("its answer is longer than 64 KiB");
    const absl::Status status = GrpcStatus(end_);
    if (!status.ok()) {
      return absl::Status(status.code(), status.message().substr(0, kMaxSentenceBytes));
    }
    MessageReader reader;
    reader.Add(body_);
    std::string_view message;
    return reader.Next(&message) ? std::string(message) : "";
  }

 private:
  std::string body_;
  AnswerEnd end_;
  bool has_ended_ = false;
  bool is_too_long_ = false;
};

}  // namespace

OtlpClient::OtlpClient(const OtlpOptions& options)
    : server_(options.server),
      uses_tls_(options.uses_tls),
      ca_file_(options.ca_file),
      headers_{{"user-agent", "quire/" QUIRE_VERSION}} {
  headers_.insert(headers_.end(), options.headers.begin(), options.headers.end());
}

absl::StatusOr<std::string> OtlpClient::Export(const std::string& request) {
  const absl::Time deadline = MonotonicNow() + kCallTimeout;
  ASSIGN_OR_RETURN(const ServerAddress collector, FindCollector(deadline));
  ExportAnswer answer;
  Http2ClientConnection connection(&loop_, collector);
  if (connection.is_lost()) {
    return absl::UnavailableError("this process may open no more connections");
  }
  connection.Start(GrpcRequest(kMethod, request, /*authorization=*/"", headers_), &answer);
  RETURN_IF_ERROR(RunUntil(deadline, [&] { return answer.is_decided(); }));
  return answer.Read();
}

// The files are read for each call: they may be replaced while the server runs.
absl::StatusOr<ServerAddress> OtlpClient::FindCollector(absl::Time deadline) {
  const ServerLookup lookup(&loop_, server_);
  RETURN_IF_ERROR(RunUntil(deadline, [&] { return lookup.result().has_value(); }));
  ASSIGN_OR_RETURN(ServerAddress collector, *lookup.result());
  if (uses_tls_) {
    auto context = MakeClientContext({.ca = ca_file_});
    // Somebody may mend the file.
    if (!context.ok()) return absl::UnavailableError(context.status().message());
    collector.tls = *std::move(context);
  }
  return collector;
}

absl::Status OtlpClient::RunUntil(absl::Time deadline, absl::FunctionRef<bool()> is_done) {
  while (!is_done()) {
    const absl::Duration left =
        std::min(deadline, absl::FromUnixNanos(end_by_ns_)) - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("it does not answer in time");
    }
    loop_.RunUntil(IoLoop::Clock::now() + absl::ToChronoNanoseconds(left));
  }
  return absl::OkStatus();
}

void OtlpClient::EndBy(absl::Time deadline) {
  end_by_ns_ = absl::ToUnixNanos(deadline);
  loop_.Wake();
}

}  // namespace quire
