#include "server/wire/client/io_loop.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "kernels/base/check.h"

namespace quire {

namespace {

bool Control(int epoll, int operation, int fd, uint32_t epoll_events, void* watcher) {
  epoll_event event = {};
  event.events = epoll_events;
  event.data.ptr = watcher;
  return epoll_ctl(epoll, operation, fd, &event) == 0;
}

}  // namespace

IoLoop::IoLoop()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  CHECK(epoll_.valid() && timer_.valid() && wake_.valid()) << "errno " << errno;
  CHECK(Control(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), EPOLLIN, nullptr)) << "errno " << errno;
  CHECK(Control(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), EPOLLIN, nullptr)) << "errno " << errno;
}

bool IoLoop::Watch(int fd, uint32_t epoll_events, Watcher* watcher) {
  return Control(epoll_.get(), EPOLL_CTL_ADD, fd, epoll_events, watcher);
}

void IoLoop::ChangeWatch(int fd, uint32_t epoll_events, Watcher* watcher) {
  CHECK(Control(epoll_.get(), EPOLL_CTL_MOD, fd, epoll_events, watcher)) << "errno " << errno;
}

void IoLoop::EndWatch(int fd, Watcher* watcher) {
  CHECK(Control(epoll_.get(), EPOLL_CTL_DEL, fd, 0, nullptr)) << "errno " << errno;
  for (int i = 0; i < num_ready_; ++i) {
    if (ready_[i].data.ptr == watcher) ready_[i].data.ptr = nullptr;
  }
}

void IoLoop::SetTimer(Clock::time_point time) {
  if (time == timer_time_) return;
  timer_time_ = time;
  // A time of zero would disarm it.
  const int64_t ns = std::max<int64_t>(
      1, std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  itimerspec spec = {};
  spec.it_value = {static_cast<time_t>(ns / kNsPerSecond), static_cast<long>(ns % kNsPerSecond)};
  CHECK_EQ(timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr), 0);
}

void IoLoop::RunUntil(Clock::time_point time) {
  const bool waits = time > Clock::now();
  if (waits) SetTimer(time);
  num_ready_ = std::max(
      0, epoll_wait(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), waits ? -1 : 0));
  for (int i = 0; i < num_ready_; ++i) {
    if (auto* watcher = static_cast<Watcher*>(ready_[i].data.ptr)) {
      watcher->OnReady(ready_[i].events);
    } else {
      if (timer_time_ <= Clock::now()) {
        SetTimer(Clock::time_point::max() - std::chrono::hours(1));  // also takes the expiry back
      }
      eventfd_t count = 0;
      eventfd_read(wake_.get(), &count);
    }
  }
  num_ready_ = 0;
}

void IoLoop::Wake() { eventfd_write(wake_.get(), 1); }

}  // namespace quire
