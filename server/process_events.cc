#include "server/process_events.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/base/check.h"

namespace quire {

namespace {

constexpr absl::Duration kSameSignal = absl::Seconds(1);

}  // namespace

ProcessEvents::ProcessEvents(std::function<void()> on_hangup)
    : on_hangup_(std::move(on_hangup)), news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  sigaddset(&mask, SIGINT);
  if (on_hangup_ != nullptr) sigaddset(&mask, SIGHUP);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mask, nullptr), 0);
  signal(SIGPIPE, SIG_IGN);
  signals_ = UniqueFd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  CHECK(signals_.valid() && news_.valid()) << "no descriptors are left";
}

void ProcessEvents::Notify() { eventfd_write(news_.get(), 1); }

ProcessEvents::Kind ProcessEvents::Wait(absl::Time deadline) {
  pollfd fds[] = {{signals_.get(), POLLIN, 0}, {news_.get(), POLLIN, 0}};
  while (true) {
    signalfd_siginfo signal_info;
    if (read(signals_.get(), &signal_info, sizeof(signal_info)) > 0) {
      if (signal_info.ssi_signo == SIGHUP) {
        on_hangup_();
        continue;
      }
      const absl::Time now = absl::Now();
      if (now - last_signal_ < kSameSignal) continue;
      last_signal_ = now;
      return Kind::kSignal;
    }
    eventfd_t count = 0;
    if (eventfd_read(news_.get(), &count) == 0) return Kind::kNews;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return Kind::kTimeout;
    const int64_t ms = absl::ToInt64Milliseconds(std::min(left, absl::Hours(24))) + 1;
    poll(fds, 2, deadline == absl::InfiniteFuture() ? -1 : static_cast<int>(ms));
  }
}

}  // namespace quire
