#include "server/wire/transport/event_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "server/base/start_thread.h"

namespace quire {

namespace {

constexpr size_t kScratchBytes = size_t{64} << 10;
constexpr EventLoop::WatchId kWakeId = 0;

// The loop whose thread this is; null on others.
const EventLoop*& RunningLoop() {
  thread_local const EventLoop* loop = nullptr;
  return loop;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Start(std::string thread_name) {
  std::unique_ptr<EventLoop> loop(new EventLoop(std::move(thread_name)));
  if (!loop->epoll_.valid() || !loop->wake_.valid() ||
      !loop->Control(EPOLL_CTL_ADD, kWakeId, loop->wake_.get(), EPOLLIN)) {
    return absl::UnavailableError(
        absl::StrCat("cannot watch connections: ", std::strerror(errno), "; raise `ulimit -n`"));
  }
  ASSIGN_OR_RETURN(loop->thread_, StartThread([raw = loop.get()] { raw->Run(); }));
  return loop;
}

EventLoop::EventLoop(std::string thread_name)
    : thread_name_(std::move(thread_name)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      scratch_(kScratchBytes),
      now_(MonotonicNow()) {}

EventLoop::~EventLoop() { Stop(); }

void EventLoop::Post(Work work) {
  const bool is_own = RunningLoop() == this;
  bool is_first = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    is_first = posted_.empty();
    posted_.push_back(std::move(work));
  }
  // A caller that finds work waiting already knows that the loop was woken for it, or has not slept
  // yet.
  if (is_own) {
    has_own_posts_ = true;
  } else if (is_first) {
    eventfd_write(wake_.get(), 1);
  }
}

void EventLoop::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

std::optional<EventLoop::WatchId> EventLoop::Watch(int fd, uint32_t epoll_events,
                                                   Watcher* watcher) {
  const WatchId id = next_id_++;
  if (!Control(EPOLL_CTL_ADD, id, fd, epoll_events)) return std::nullopt;
  watchers_.emplace(id, watcher);
  return id;
}

bool EventLoop::ChangeWatch(WatchId id, int fd, uint32_t epoll_events) {
  return Control(EPOLL_CTL_MOD, id, fd, epoll_events);
}

// False when the system is short of memory, or of watches (fs.epoll.max_user_watches).
bool EventLoop::Control(int operation, WatchId id, int fd, uint32_t epoll_events) {
  epoll_event event = {};
  event.events = epoll_events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), operation, fd, &event) == 0) return true;
  CHECK(errno == ENOMEM || errno == ENOSPC) << std::strerror(errno);
  return false;
}

void EventLoop::EndWatch(WatchId id, int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watchers_.erase(id);
}

EventLoop::TimerId EventLoop::AddTimer(absl::Time when, Work work) {
  const TimerId id = {when, next_id_++};
  timers_.emplace(id, std::move(work));
  return id;
}

void EventLoop::Run() {
  pthread_setname_np(pthread_self(), thread_name_.c_str());
  RunningLoop() = this;
  while (!ended_) RunTurn();
}

void EventLoop::RunTurn() {
  std::array<epoll_event, 128> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), TimeoutMs());
  now_ = MonotonicNow();
  for (int i = 0; i < count; ++i) {
    const WatchId id = events[i].data.u64;
    if (id == kWakeId) {
      eventfd_t ignored;
      eventfd_read(wake_.get(), &ignored);
      continue;
    }
    // An earlier event of this turn may have ended the watch.
    const auto watcher = watchers_.find(id);
    if (watcher != watchers_.end()) watcher->second->OnReady(events[i].events);
  }
  RunPosted();
  RunTimers();
  for (size_t i = 0; i < end_of_turn_.size(); ++i) {
    Work work = std::move(end_of_turn_[i]);
    work();
  }
  end_of_turn_.clear();
  ChargeTurn();
}

// CPU time is asked for once a turn: that is a system call, as dear as a small read, and so what
// the waiting costs is paid for as well. The clock, which is cheap, only divides it.
void EventLoop::ChargeTurn() {
  const double now = ThreadSeconds();
  const double turn_seconds = now - std::exchange(charged_seconds_, now);
  double sum = 0;
  for (const auto& [account, share] : payers_) sum += share;
  for (const auto& [account, share] : payers_) account->Charge(turn_seconds * share / sum);
  payers_.clear();
}

void EventLoop::RunPosted() {
  std::vector<Work> posted;
  {
    absl::MutexLock lock(&mutex_);
    posted.swap(posted_);
    ended_ = stopping_;
    has_own_posts_ = false;
  }
  for (Work& work : posted) work();
}

void EventLoop::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first.first <= now_) {
    Work work = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    work();
  }
}

int EventLoop::TimeoutMs() const {
  if (has_own_posts_) return 0;
  if (timers_.empty()) return -1;
  const absl::Duration wait = timers_.begin()->first.first - MonotonicNow();
  // Rounded up: a timer that is not quite due would make the loop spin.
  const int64_t ms = absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)));
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000));
}

}  // namespace quire
