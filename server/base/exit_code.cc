#include "server/base/exit_code.h"

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

}  // namespace quire
