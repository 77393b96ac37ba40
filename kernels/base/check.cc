#include "kernels/base/check.h"

#include <cstdio>
#include <cstdlib>

#include "kernels/base/check_reporter.h"

namespace quire {

namespace {

using Reporter = void (*)(const std::string& message);

Reporter& CheckReporter() {
  static Reporter reporter = nullptr;
  return reporter;
}

}  // namespace

void SetCheckReporter(Reporter report) { CheckReporter() = report; }

namespace internal {

CheckFailure::CheckFailure(const char* file, int line, const char* expression) {
  message_ << file << ":" << line << ": CHECK failed: " << expression << " ";
}

CheckFailure::~CheckFailure() {
  if (const Reporter report = CheckReporter(); report != nullptr) {
    report(message_.str());
  } else {
    std::fprintf(stderr, "%s\n", message_.str().c_str());
    std::fflush(stderr);
  }
  std::abort();
}

}  // namespace internal
}  // namespace quire
