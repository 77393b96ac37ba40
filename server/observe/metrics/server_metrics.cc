#include "server/observe/metrics/server_metrics.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {

absl::string_view RefusalName(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kQueueFull:
      return "queue_full";
    case RefusalReason::kPrincipalLimit:
      return "principal_limit";
    case RefusalReason::kInvalid:
      return "invalid";
    case RefusalReason::kNotAllowed:
      return "not_allowed";
    case RefusalReason::kDuplicateId:
      return "duplicate_id";
    case RefusalReason::kNotAdmitting:
      return "not_admitting";
    case RefusalReason::kCancelled:
      return "cancelled";
    case RefusalReason::kOther:
      return "other";
  }
  return "other";
}

RefusalReason RefusalOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kResourceExhausted:
      return RefusalReason::kQueueFull;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
      return RefusalReason::kInvalid;
    case absl::StatusCode::kPermissionDenied:
      return RefusalReason::kNotAllowed;
    case absl::StatusCode::kAlreadyExists:
      return RefusalReason::kDuplicateId;
    case absl::StatusCode::kUnavailable:
      return RefusalReason::kNotAdmitting;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return RefusalReason::kCancelled;
    default:
      return RefusalReason::kOther;
  }
}

void ServerMetrics::CountGrpcCall(absl::string_view path, absl::StatusCode code) {
  absl::MutexLock lock(&mutex_);
  ++grpc_calls_[{std::string(path), code}];
}

void ServerMetrics::CountHttpCall(absl::string_view handler, absl::string_view method, int status) {
  // Whatever a client calls its method, there are few.
  const bool is_usual =
      method == "GET" || method == "POST" || method == "HEAD" || method == "OPTIONS";
  absl::MutexLock lock(&mutex_);
  ++http_calls_[{std::string(handler), std::string(is_usual ? method : "other"), status / 100}];
}

std::vector<ServerMetrics::GrpcCalls> ServerMetrics::grpc_calls() const {
  std::vector<GrpcCalls> calls;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, count] : grpc_calls_) {
    const std::string& path = key.first;
    const size_t slash = path.rfind('/');
    calls.push_back({path.substr(1, slash - 1), path.substr(slash + 1), key.second, count});
  }
  return calls;
}

std::vector<ServerMetrics::HttpCalls> ServerMetrics::http_calls() const {
  std::vector<HttpCalls> calls;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, count] : http_calls_) {
    const auto& [handler, method, status] = key;
    calls.push_back({handler, method, absl::StrCat(status, "xx"), count});
  }
  return calls;
}

}  // namespace quire
