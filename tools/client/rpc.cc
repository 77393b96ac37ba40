#include "tools/client/rpc.h"

#include <grpc/support/time.h>

#include <cstdio>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "tools/client/credentials.h"
#include "tools/client/grpc_log.h"

namespace quire::client {

std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  KeepGrpcErrors();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // prompt logprobs of long prompts
  // A client on the same machine must not go through a proxy that the environment names.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A server that is just starting is found soon after it listens (gRPC's default: a second or
  // more).
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  absl::string_view address = target;
  const bool tls = absl::ConsumePrefix(&address, kTlsPrefix);
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      std::string(address), MakeCredentials(tls), arguments, KeySenders());
}

int ReportFailure(const grpc::Status& status, const std::string& target) {
  std::fprintf(stderr, "quire: %s\n", DescribeFailure(status, target).c_str());
  return FailureExitCode(status);
}

void AddTimeoutFlag(CLI::App& command, const std::string& name, const std::string& description,
                    double* seconds) {
  constexpr double kYear = 366.0 * 24 * 3600;
  const CLI::Validator in_range(
      [](std::string& text) -> std::string {
        double value = -1;
        const bool number = absl::SimpleAtod(text, &value) && value >= 0 && value <= kYear;
        return number ? "" : "\"" + text + "\" is not a number of seconds, 0 or more";
      },
      "");
  command.add_option(name, *seconds, description)
      ->type_name("SECONDS")
      ->check(in_range)
      ->capture_default_str();
}

void SetTimeout(double seconds, grpc::ClientContext* context) {
  if (seconds <= 0) return;
  // A length, not a time of day: whoever sets the clock does not move it.
  context->set_deadline(gpr_time_from_millis(static_cast<int64_t>(seconds * 1000), GPR_TIMESPAN));
}

}  // namespace quire::client
