#include "tools/client/grpc_log.h"

#include <grpc/support/log.h>

#include <cstdlib>
#include <deque>

#include "absl/base/call_once.h"
#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"

namespace quire::client {

namespace {

constexpr size_t kMaxKept = 8;
constexpr size_t kMaxLineBytes = 400;

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);

std::deque<std::string>& Kept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  static auto* const kept = new std::deque<std::string>;  // gRPC's threads may outlive main
  return *kept;
}

void Keep(gpr_log_func_args* line) {
  if (line->severity != GPR_LOG_SEVERITY_ERROR) return;
  absl::MutexLock lock(&mutex);
  Kept().push_back(std::string(line->message).substr(0, kMaxLineBytes));
  if (Kept().size() > kMaxKept) Kept().pop_front();
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
  absl::MutexLock lock(&mutex);
  return absl::StrJoin(Kept(), "; ");
}

}  // namespace quire::client
