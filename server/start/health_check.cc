#include "server/start/health_check.h"

#include <csignal>
#include <fstream>
#include <iomanip>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/base/exit_code.h"
#include "server/base/host_port.h"
#include "server/observe/log/log_writer.h"
#include "server/wire/client/http1_client_connection.h"
#include "server/wire/client/server_address.h"
#include "server/wire/tls/client_context.h"

namespace quire {

namespace {

constexpr auto kPatience = std::chrono::seconds(4);
constexpr int kMaxAddressBytes = 300;

// The address that the server wrote, or else its default. The server may not have come so far, or
// may have found no room to write.
std::string AddressOf(const Settings& settings) {
  std::ifstream file(settings.address_file);
  std::string address;
  if (file >> std::setw(kMaxAddressBytes) >> address) return address;
  return HostPort{.host = "127.0.0.1", .port = static_cast<int32_t>(settings.port)}.ToString();
}

class StatusSink final : public AnswerSink {
 public:
  void OnBody(std::string_view) override {}
  void OnEnd(const AnswerEnd& end) override {
    end_ = end;
    has_ended_ = true;
  }

  bool has_ended() const { return has_ended_; }
  bool is_answered() const { return end_.http_status != 0; }
  absl::Status status() const {
    if (end_.http_status == 200) return absl::OkStatus();
    return absl::UnavailableError(is_answered()
                                      ? absl::StrCat("it answers with HTTP status ",
                                                     end_.http_status, ": it drains, or has failed")
                                      : end_.problem);
  }

 private:
  AnswerEnd end_;
  bool has_ended_ = false;
};

// `is_answered`: by HTTP, with whatever status.
absl::Status Ask(const ServerAddress& server, IoLoop::Clock::time_point give_up,
                 bool* is_answered) {
  IoLoop loop;
  StatusSink sink;
  Http1ClientConnection connection(&loop, server);
  if (connection.is_lost()) return absl::UnavailableError("this process may open no connection");
  connection.Start({.method = "GET", .path = "/health"}, &sink);
  while (!sink.has_ended()) {
    if (IoLoop::Clock::now() >= give_up) return absl::UnavailableError("no answer within 4 s");
    loop.RunUntil(give_up);
  }
  *is_answered = sink.is_answered();
  return sink.status();
}

absl::Status AskAt(const std::string& address) {
  ASSIGN_OR_RETURN(const HostPort host_port, ParseHostPort(address, /*default_port=*/8000));
  ASSIGN_OR_RETURN(ServerAddress server, ReadServerAddress(host_port));
  const IoLoop::Clock::time_point give_up = IoLoop::Clock::now() + kPatience;
  bool is_answered = false;
  absl::Status in_the_clear = Ask(server, give_up, &is_answered);
  if (is_answered) return in_the_clear;
  ASSIGN_OR_RETURN(server.tls, MakeClientContext({}));
  SSL_CTX_set_verify(server.tls.get(), SSL_VERIFY_NONE, nullptr);
  const absl::Status through_tls = Ask(server, give_up, &is_answered);
  return is_answered ? through_tls : in_the_clear;
}

}  // namespace

int CheckHealth(const Settings& settings) {
  std::signal(SIGPIPE, SIG_IGN);  // of a server that closes what TLS writes to
  const std::string address = AddressOf(settings);
  const absl::Status status = AskAt(address);
  if (status.ok()) return static_cast<int>(ExitCode::kOk);
  PrintFailure(absl::StrCat("no server serves at ", address, ": ", std::string(status.message())));
  return static_cast<int>(ExitCode::kUnavailable);
}

}  // namespace quire
