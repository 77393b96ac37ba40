#include "tools/bench/failure.h"

#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace quire::bench {

namespace {

constexpr char kPayload[] = "quire-bench/exit-code";

}  // namespace

absl::Status WithExitCode(int exit_code, absl::Status status) {
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(exit_code)));
  return status;
}

absl::Status UsageError(const std::string& message) {
  return WithExitCode(kUsage, absl::InvalidArgumentError(message));
}

int ExitCodeOf(const absl::Status& status) {
  int code = kEngineFailure;
  if (const auto payload = status.GetPayload(kPayload); payload.has_value()) {
    if (!absl::SimpleAtoi(std::string(*payload), &code)) code = kEngineFailure;
  }
  return code;
}

int Fail(const absl::Status& status) {
  const std::string line = absl::StrReplaceAll(status.message(), {{"\n", "; "}});
  std::fputs(absl::StrCat("quire-bench: ", line, "\n").c_str(), stderr);
  return ExitCodeOf(status);
}

void Warn(const std::string& message) {
  std::fputs(absl::StrCat("quire-bench: warning: ", message, "\n").c_str(), stderr);
}

}  // namespace quire::bench
