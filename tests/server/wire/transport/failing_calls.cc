#include "tests/server/wire/transport/failing_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "server/wire/transport/byte_budget.h"

namespace quire::testing {

namespace {

// The state that all threads share.
struct State {
  std::atomic<bool> is_armed = false;
  std::atomic<Call> call;
  std::atomic<int> error;
  std::atomic<int64_t> first;
  std::atomic<int64_t> end;
  std::atomic<int64_t> num_calls = 0;
  std::atomic<bool> has_failed = false;
};

State& Shared() {
  static State state;
  return state;
}

bool& IsClient() {
  static thread_local bool is_client = false;
  return is_client;
}

// Counts this call if it is of the armed kind; whether it fails.
bool Fails(Call call) {
  State& state = Shared();
  if (IsClient() || !state.is_armed.load() || state.call.load() != call) return false;
  const int64_t number = ++state.num_calls;
  if (number < state.first.load() || number >= state.end.load()) return false;
  state.has_failed = true;
  return true;
}

// Whether a call that is to fail fails; else it is to move one byte.
bool FailsWithError() {
  if (Shared().error.load() == Fault::kShort) return false;
  errno = Shared().error.load();
  return true;
}

template <typename Function>
Function* Real(Function*, const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == nullptr) std::abort();
  return reinterpret_cast<Function*>(function);
}

const char* Name(Call call) {
  constexpr const char* kNames[] = {
      "accept4",         "recv",       "send",     "read",           "write",
      "epoll_ctl",       "epoll_wait", "poll",     "open",           "eventfd",
      "epoll_create1",   "setsockopt", "shutdown", "pthread_create", "ByteBudget::Account::Take",
      "OpenSSL's malloc"};
  return kNames[static_cast<int>(call)];
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  out << Name(fault.call) << " number " << fault.first;
  if (fault.count > 1) out << " to " << fault.first + fault.count - 1;
  return fault.error == Fault::kShort ? out << " is short or refused"
                                      : out << ": " << std::strerror(fault.error);
}

void FailingCalls::Begin(const Fault& fault) {
  State& state = Shared();
  state.call = fault.call;
  state.error = fault.error;
  state.first = fault.first;
  state.end = fault.first + fault.count;
  state.num_calls = 0;
  state.has_failed = false;
  state.is_armed = true;
}

int64_t FailingCalls::End() {
  Shared().is_armed = false;
  return Shared().num_calls.load();
}

bool FailingCalls::HasFailed() { return Shared().has_failed.load(); }

AsClient::AsClient(bool is_client) : was_client_(IsClient()) { IsClient() = is_client; }
AsClient::~AsClient() { IsClient() = was_client_; }

}  // namespace quire::testing

using quire::testing::Call;

// The functions of the C library, defined anew; what is missing here is called by nobody.
#define QUIRE_REAL(name) \
  static auto* const real = quire::testing::Real(static_cast<decltype(&::name)>(nullptr), #name)
#define QUIRE_FAIL(call, result) \
  if (quire::testing::Fails(call) && quire::testing::FailsWithError()) return result

extern "C" {

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  QUIRE_REAL(accept4);
  QUIRE_FAIL(Call::kAccept, -1);
  return real(fd, address, size, flags);
}

ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  QUIRE_REAL(recv);
  if (quire::testing::Fails(Call::kReceive)) {
    if (quire::testing::FailsWithError()) return -1;
    size = 1;
  }
  return real(fd, buffer, size, flags);
}

ssize_t send(int fd, const void* buffer, size_t size, int flags) {
  QUIRE_REAL(send);
  if (quire::testing::Fails(Call::kSend)) {
    if (quire::testing::FailsWithError()) return -1;
    size = 1;
  }
  return real(fd, buffer, size, flags);
}

ssize_t read(int fd, void* buffer, size_t size) {
  QUIRE_REAL(read);
  if (quire::testing::Fails(Call::kRead)) {
    if (quire::testing::FailsWithError()) return -1;
    size = 1;
  }
  return real(fd, buffer, size);
}

ssize_t write(int fd, const void* buffer, size_t size) {
  QUIRE_REAL(write);
  if (quire::testing::Fails(Call::kWrite)) {
    if (quire::testing::FailsWithError()) return -1;
    size = 1;
  }
  return real(fd, buffer, size);
}

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  QUIRE_REAL(epoll_ctl);
  // A call that ends a watch is never refused.
  if (operation != EPOLL_CTL_DEL) QUIRE_FAIL(Call::kEpollControl, -1);
  return real(epoll, operation, fd, event);
}

int epoll_wait(int epoll, epoll_event* events, int max_events, int timeout_ms) {
  QUIRE_REAL(epoll_wait);
  QUIRE_FAIL(Call::kEpollWait, -1);
  return real(epoll, events, max_events, timeout_ms);
}

int poll(pollfd* fds, nfds_t num_fds, int timeout_ms) {
  QUIRE_REAL(poll);
  QUIRE_FAIL(Call::kPoll, -1);
  return real(fds, num_fds, timeout_ms);
}

int open(const char* path, int flags, ...) {
  static auto* const real =
      quire::testing::Real(static_cast<int (*)(const char*, int, ...)>(nullptr), "open");
  QUIRE_FAIL(Call::kOpen, -1);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return real(path, flags, mode);
}

int eventfd(unsigned int count, int flags) noexcept {
  QUIRE_REAL(eventfd);
  QUIRE_FAIL(Call::kEventFd, -1);
  return real(count, flags);
}

int epoll_create1(int flags) noexcept {
  QUIRE_REAL(epoll_create1);
  QUIRE_FAIL(Call::kEpollCreate, -1);
  return real(flags);
}

int setsockopt(int fd, int level, int option, const void* value, socklen_t size) noexcept {
  QUIRE_REAL(setsockopt);
  QUIRE_FAIL(Call::kSetOption, -1);
  return real(fd, level, option, value, size);
}

int shutdown(int fd, int how) noexcept {
  QUIRE_REAL(shutdown);
  QUIRE_FAIL(Call::kShutdown, -1);
  return real(fd, how);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  QUIRE_REAL(pthread_create);
  if (quire::testing::Fails(Call::kThread)) return EAGAIN;
  return real(thread, attributes, run, argument);
}

// The linker's --wrap puts these in the place of what they are named after.
// NOLINTBEGIN(bugprone-reserved-identifier)

// ByteBudget::Account::Take.
bool __real__ZN5quire10ByteBudget7Account4TakeEl(quire::ByteBudget::Account* account,
                                                 int64_t bytes);
bool __wrap__ZN5quire10ByteBudget7Account4TakeEl(quire::ByteBudget::Account* account,
                                                 int64_t bytes) {
  if (quire::testing::Fails(Call::kTakeBytes)) return false;
  return __real__ZN5quire10ByteBudget7Account4TakeEl(account, bytes);
}
// NOLINTEND(bugprone-reserved-identifier)

}  // extern "C"

namespace {

// OpenSSL takes its memory's functions only before it has used any.
__attribute__((constructor)) void TakeOverTlsMemory() {
  CRYPTO_set_mem_functions(
      [](size_t size, const char*, int) -> void* {
        return quire::testing::Fails(Call::kTlsMemory) ? nullptr : malloc(size);
      },
      [](void* bytes, size_t size, const char*, int) -> void* {
        return quire::testing::Fails(Call::kTlsMemory) ? nullptr : realloc(bytes, size);
      },
      [](void* bytes, const char*, int) { free(bytes); });
}

}  // namespace
