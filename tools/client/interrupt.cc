#include "tools/client/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace quire::client {

namespace {

constexpr char kInterrupt = 'i';
constexpr char kEnd = 'e';

// The handler's only way to reach the watcher: [read, write] of a pipe that lives as long as the
// process, so that a signal that comes late finds it.
const std::array<int, 2>& Pipe() {
  static const std::array<int, 2> kPipe = [] {
    std::array<int, 2> ends = {-1, -1};
    (void)pipe2(ends.data(), O_CLOEXEC);
    return ends;
  }();
  return kPipe;
}

void Send(char byte) {
  const int saved = errno;
  (void)!write(Pipe()[1], &byte, 1);
  errno = saved;
}

void OnSignal(int /*number*/) { Send(kInterrupt); }

}  // namespace

InterruptGuard::InterruptGuard(std::function<void()> on_interrupt) {
  (void)Pipe();  // made here, not in the handler
  watcher_ = std::thread([this, run = std::move(on_interrupt)] { Watch(run); });
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_, nullptr);
  Send(kEnd);
  watcher_.join();
}

void InterruptGuard::Watch(const std::function<void()>& on_interrupt) {
  while (true) {
    char byte = 0;
    const ssize_t got = read(Pipe()[0], &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1 || byte == kEnd) return;
    interrupted_ = true;
    on_interrupt();
  }
}

InterruptsIgnored::InterruptsIgnored() {
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  sigaction(SIGINT, &action, &previous_);
}

InterruptsIgnored::~InterruptsIgnored() { sigaction(SIGINT, &previous_, nullptr); }

}  // namespace quire::client
