#include "server/base/exit_code.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace quire {

ExitCode StartFailureCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return ExitCode::kModelFiles;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kUnavailable;
    default:
      return ExitCode::kEngineFailure;
  }
}

void PrintFailure(const std::string& sentence) {
  const std::string one_line = absl::StrReplaceAll(sentence, {{"\n", "; "}});
  std::fputs(absl::StrCat("quire-server: ", one_line, "\n").c_str(), stderr);
}

}  // namespace quire
