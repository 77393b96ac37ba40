#include "tools/client/grpc_log.h"

#include <grpc/support/log.h>

#include <cstdlib>
#include <deque>

#include "absl/base/call_once.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"

namespace quire::client {

namespace {

constexpr size_t kMaxKept = 8;
constexpr size_t kMaxLineBytes = 400;

struct Kept {
  absl::Mutex mutex;
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
};

Kept& TheKept() {
  static auto* const kept = new Kept;  // gRPC's threads may outlive main
  return *kept;
}

void Keep(gpr_log_func_args* line) {
  if (line->severity != GPR_LOG_SEVERITY_ERROR) return;
  Kept& kept = TheKept();
  absl::MutexLock lock(&kept.mutex);
  kept.lines.push_back(std::string(line->message).substr(0, kMaxLineBytes));
  if (kept.lines.size() > kMaxKept) kept.lines.pop_front();
}

}  // namespace

void KeepGrpcErrors() {
  static absl::once_flag once;
  absl::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) {  // NOLINT(concurrency-mt-unsafe)
      gpr_set_log_function(&Keep);
    }
  });
}

std::string KeptGrpcErrors() {
  Kept& kept = TheKept();
  absl::MutexLock lock(&kept.mutex);
  return absl::StrJoin(kept.lines, "; ");
}

}  // namespace quire::client
