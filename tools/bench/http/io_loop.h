// IoLoop: waits for descriptors and for a time, on the one thread of a load: no thread is woken for
// a token, so what is timed is the server. Everything that is watched belongs to that thread.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "server/wire/transport/unique_fd.h"

namespace quire::bench {

using Clock = std::chrono::steady_clock;

class IoLoop {
 public:
  // Who is told that its descriptor is ready. May forget and destroy itself meanwhile.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void OnReady(uint32_t epoll_events) = 0;
  };

  IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Level-triggered; one descriptor for each watcher.
  void Watch(int fd, uint32_t epoll_events, Watcher* watcher);
  void ChangeWatch(int fd, uint32_t epoll_events, Watcher* watcher);
  void EndWatch(int fd, Watcher* watcher);

  // Waits until something is ready or the time has come, and tells the watchers of what is ready.
  void RunUntil(Clock::time_point time);

 private:
  void SetTimer(Clock::time_point time);

  UniqueFd epoll_;
  UniqueFd timer_;  // finer than epoll's milliseconds
  Clock::time_point timer_time_ = {};
  std::array<epoll_event, 256> ready_;
  int num_ready_ = 0;
};

}  // namespace quire::bench
