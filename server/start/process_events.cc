#include "server/start/process_events.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/clock.h"

namespace quire {

namespace {

// A script passes on what it got when the command that it waits for lets it.
constexpr absl::Duration kPassedOnWithin = absl::Seconds(1);
constexpr absl::Duration kTogether = absl::Milliseconds(10);

}  // namespace

ProcessEvents::ProcessEvents(std::function<void()> on_hangup)
    : on_hangup_(std::move(on_hangup)), news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  sigaddset(&mask, SIGINT);
  sigaddset(&mask, SIGHUP);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mask, nullptr), 0);
  signal(SIGPIPE, SIG_IGN);
  signals_ = UniqueFd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  CHECK(signals_.valid() && news_.valid()) << "no descriptors are left";
}

void ProcessEvents::Notify() { eventfd_write(news_.get(), 1); }

bool ProcessEvents::IsLastOnceMore(const Taken& taken) const {
  const absl::Duration since = taken.time - last_.time;
  if (last_.may_be_passed_on && taken.sender == getppid()) return since < kPassedOnWithin;
  return taken.number == last_.number && taken.sender == last_.sender && since < kTogether;
}

ProcessEvents::Kind ProcessEvents::Wait(absl::Time deadline) {
  pollfd fds[] = {{signals_.get(), POLLIN, 0}, {news_.get(), POLLIN, 0}};
  while (true) {
    signalfd_siginfo signal_info;
    if (read(signals_.get(), &signal_info, sizeof(signal_info)) > 0) {
      if (signal_info.ssi_signo == SIGHUP) {
        on_hangup_();
        continue;
      }
      const auto sender = static_cast<pid_t>(signal_info.ssi_pid);
      const Taken taken = {
          .number = signal_info.ssi_signo,
          .may_be_passed_on = signal_info.ssi_signo == SIGINT && sender != getppid(),
          .sender = sender,
          .time = MonotonicNow()};
      if (IsLastOnceMore(taken)) continue;
      last_ = taken;
      return Kind::kSignal;
    }
    eventfd_t count = 0;
    if (eventfd_read(news_.get(), &count) == 0) return Kind::kNews;
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) return Kind::kTimeout;
    const int64_t ms = absl::ToInt64Milliseconds(std::min(left, absl::Hours(24))) + 1;
    poll(fds, 2, deadline == absl::InfiniteFuture() ? -1 : static_cast<int>(ms));
  }
}

}  // namespace quire
