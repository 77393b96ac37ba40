// CHECK: invariants that stay on in release builds. A failed check prints the expression, the place
// and the streamed message to standard error and aborts; it is for programmer errors, never for bad
// input. Any thread.
#pragma once

#include <sstream>
#include <string>

namespace quire::internal {

// Collects the message of a failed check; its destructor prints it and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* expression);
  [[noreturn]] ~CheckFailure();

  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;

  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Turns the streamed expression into void so that both arms of the macro's ?: agree.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace quire::internal

#define QUIRE_CHECK_FAILURE(expression) \
  ::quire::internal::CheckFailure(__FILE__, __LINE__, expression).stream()

#define CHECK(condition)             \
  __builtin_expect(!!(condition), 1) \
      ? (void)0                      \
      : ::quire::internal::Voidify() & QUIRE_CHECK_FAILURE(#condition)

#define QUIRE_CHECK_OP(a, op, b)                                              \
  __builtin_expect(!!((a)op(b)), 1)                                           \
      ? (void)0                                                               \
      : ::quire::internal::Voidify() & QUIRE_CHECK_FAILURE(#a " " #op " " #b) \
                                           << "(" << (a) << " vs " << (b) << ") "

#define CHECK_EQ(a, b) QUIRE_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) QUIRE_CHECK_OP(a, !=, b)
#define CHECK_LE(a, b) QUIRE_CHECK_OP(a, <=, b)
#define CHECK_LT(a, b) QUIRE_CHECK_OP(a, <, b)
#define CHECK_GE(a, b) QUIRE_CHECK_OP(a, >=, b)
#define CHECK_GT(a, b) QUIRE_CHECK_OP(a, >, b)

// Inside hot loops only; compiled out in release builds, but never left to rot.
#ifdef NDEBUG
#define DCHECK(condition) \
  while (false) CHECK(condition)
#else
#define DCHECK(condition) CHECK(condition)
#endif
