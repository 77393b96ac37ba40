// Linked into every program of a ThreadSanitizer build: tells it what absl::Mutex and absl::CondVar
// do. Debian's Abseil is not built with the sanitizer, which would see a data race in whatever such
// a mutex guards. These definitions stand before those of the shared library, and call them.
#include <dlfcn.h>

#include <cstdlib>

#include "absl/synchronization/mutex.h"

extern "C" {
void __tsan_acquire(void* address);  // NOLINT(bugprone-reserved-identifier): the sanitizer's
void __tsan_release(void* address);  // NOLINT(bugprone-reserved-identifier)
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

// The library's function of this symbol.
template <typename Function>
Function* Real(const char* symbol) {
  void* function = dlsym(RTLD_NEXT, symbol);
  if (function == nullptr) std::abort();  // another Abseil: give its symbols here
  return reinterpret_cast<Function*>(function);
}

// A thread that gives up a mutex tries the conditions of those that wait for it. In the sanitizer's
// eyes the mutex is released by then, but the thread still has it.
class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

}  // namespace

#define QUIRE_REAL(type, symbol) \
  static auto* const real = Real<type>("_ZN4absl7debian35Mutex" symbol)
#define QUIRE_REAL_CONDVAR(type, symbol) \
  static auto* const real = Real<type>("_ZN4absl7debian37CondVar" symbol)

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  QUIRE_REAL(void(Mutex*), "4LockEv");
  {
    const IgnoreReads ignore;
    real(this);
  }
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  QUIRE_REAL(bool(Mutex*), "7TryLockEv");
  const bool locked = real(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  QUIRE_REAL(void(Mutex*), "6UnlockEv");
  __tsan_release(this);
  const IgnoreReads ignore;
  real(this);
}

void Mutex::Await(const Condition& condition) {
  QUIRE_REAL(void(Mutex*, const Condition&), "5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  {
    const IgnoreReads ignore;
    real(this, condition);
  }
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  QUIRE_REAL(bool(Mutex*, const Condition&, Duration),
             "16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  __tsan_release(this);
  bool holds = false;
  {
    const IgnoreReads ignore;
    holds = real(this, condition, timeout);
  }
  __tsan_acquire(this);
  return holds;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  QUIRE_REAL(bool(Mutex*, const Condition&, Time),
             "17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  __tsan_release(this);
  bool holds = false;
  {
    const IgnoreReads ignore;
    holds = real(this, condition, deadline);
  }
  __tsan_acquire(this);
  return holds;
}

void CondVar::Wait(Mutex* mutex) {
  QUIRE_REAL_CONDVAR(void(CondVar*, Mutex*), "4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  {
    const IgnoreReads ignore;
    real(this, mutex);
  }
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  QUIRE_REAL_CONDVAR(bool(CondVar*, Mutex*, Duration),
                     "15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  bool timed_out = false;
  {
    const IgnoreReads ignore;
    timed_out = real(this, mutex, timeout);
  }
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  QUIRE_REAL_CONDVAR(bool(CondVar*, Mutex*, Time), "16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  bool timed_out = false;
  {
    const IgnoreReads ignore;
    timed_out = real(this, mutex, deadline);
  }
  __tsan_acquire(mutex);
  return timed_out;
}

ABSL_NAMESPACE_END
}  // namespace absl
