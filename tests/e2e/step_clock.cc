// A clock on the wall that a test sets: preloaded into a program, it shifts what the system calls
// the time of day by what the file of QUIRE_TEST_CLOCK holds, nanoseconds in 8 bytes, from moment
// to moment. Waits of Abseil's, which name the time of day at which they end, follow it. The steady
// clocks stay as they are.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr int64_t kSecond = 1'000'000'000;

template <typename Function>
Function* Real(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == nullptr) std::abort();
  return reinterpret_cast<Function*>(function);
}

int64_t Step() {
  static const volatile int64_t* const step = [] {
    const char* path = std::getenv("QUIRE_TEST_CLOCK");
    const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void* page = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) std::abort();
    close(fd);
    return static_cast<const volatile int64_t*>(page);
  }();
  return *step;
}

int64_t ToNs(const timespec& when) { return when.tv_sec * kSecond + when.tv_nsec; }
timespec ToTimespec(int64_t ns) { return {ns / kSecond, ns % kSecond}; }

int RealGetTime(clockid_t clock, timespec* shown) {
  static auto* const real = Real<int(clockid_t, timespec*)>("clock_gettime");
  return real(clock, shown);
}

int64_t RealNow() {
  timespec shown = {};
  RealGetTime(CLOCK_REALTIME, &shown);
  return ToNs(shown);
}

// A wait until a time of day: in pieces, between which somebody may have set the clock.
long WaitFutex(long address, long operation, long value, const timespec& end, long address2,
               long mask) {
  static auto* const real = Real<long(long, ...)>("syscall");
  constexpr int64_t kPiece = kSecond / 100;
  while (true) {
    const int64_t now = RealNow();
    const int64_t left = ToNs(end) - (now + Step());
    if (left <= 0) {
      errno = ETIMEDOUT;
      return -1;
    }
    const timespec piece_end = ToTimespec(now + std::min(left, kPiece));
    const long result = real(SYS_futex, address, operation, value, &piece_end, address2, mask);
    if (result == 0 || errno != ETIMEDOUT) return result;
  }
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* shown) noexcept {
  const int result = RealGetTime(clock, shown);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *shown = ToTimespec(ToNs(*shown) + Step());
  }
  return result;
}

int gettimeofday(timeval* shown, void* /*zone*/) noexcept {
  const timespec now = ToTimespec(RealNow() + Step());
  *shown = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* out) noexcept {
  const time_t seconds = (RealNow() + Step()) / kSecond;
  if (out != nullptr) *out = seconds;
  return seconds;
}

long syscall(long number, ...) noexcept {  // NOLINT(cert-dcl50-cpp): as in the C library
  static auto* const real = Real<long(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long argument[6];  // NOLINT(*-avoid-c-arrays)
  for (long& one : argument) one = va_arg(list, long);
  va_end(list);
  const bool ends_at_a_time =
      number == SYS_futex && (argument[1] & FUTEX_CLOCK_REALTIME) != 0 && argument[3] != 0;
  if (ends_at_a_time) {
    return WaitFutex(argument[0], argument[1], argument[2],
                     *reinterpret_cast<const timespec*>(argument[3]), argument[4], argument[5]);
  }
  return real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}

}  // extern "C"
