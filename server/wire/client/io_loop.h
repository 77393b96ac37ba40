// IoLoop: waits for descriptors and for a time, on the caller's thread. No other thread is woken
// when an answer comes, so a load times the server and not its own threads. Everything that is
// watched belongs to that thread.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "server/wire/transport/unique_fd.h"

namespace quire {

class IoLoop {
 public:
  using Clock = std::chrono::steady_clock;

  // The owner of a descriptor, which is told that it is ready. May forget and destroy itself
  // meanwhile.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void OnReady(uint32_t epoll_events) = 0;
  };

  IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Level-triggered; one descriptor for each watcher. False: the system has no room for another.
  [[nodiscard]] bool Watch(int fd, uint32_t epoll_events, Watcher* watcher);
  void ChangeWatch(int fd, uint32_t epoll_events, Watcher* watcher);
  void EndWatch(int fd, Watcher* watcher);

  // Waits until something is ready, the time has come or Wake was called, and tells the watchers of
  // all ready descriptors.
  void RunUntil(Clock::time_point time);

  // Makes RunUntil return: the call that waits now, or the next one. Any thread.
  void Wake();

 private:
  void SetTimer(Clock::time_point time);

  UniqueFd epoll_;
  UniqueFd timer_;  // finer than epoll's milliseconds
  UniqueFd wake_;   // an eventfd
  Clock::time_point timer_time_ = {};
  std::array<epoll_event, 256> ready_;
  int num_ready_ = 0;
};

}  // namespace quire
