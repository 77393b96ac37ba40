#include "kernels/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace quire::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* expression) {
  message_ << file << ":" << line << ": CHECK failed: " << expression << " ";
}

CheckFailure::~CheckFailure() {
  std::fprintf(stderr, "%s\n", message_.str().c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace quire::internal
