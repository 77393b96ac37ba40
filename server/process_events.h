// ProcessEvents: lets the main thread sleep until a signal asks the process to end or another
// thread has news. Signals are taken from a descriptor, never in a handler.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "server/transport/unique_fd.h"

namespace quire {

class ProcessEvents {
 public:
  enum class Kind : uint8_t { kSignal, kNews, kTimeout };

  // Blocks SIGTERM and SIGINT in this thread and all that it starts, and SIGHUP where there is an
  // `on_hangup`, which Wait then calls; ignores SIGPIPE. To be made before any other thread.
  explicit ProcessEvents(std::function<void()> on_hangup = nullptr);

  // Says that there is news. Any thread.
  void Notify();

  // The next event; kTimeout at the deadline. Signals within a second of the last one count as that
  // one: Ctrl-C reaches every process of a terminal, and those that wrap this one pass it on.
  Kind Wait(absl::Time deadline = absl::InfiniteFuture());

 private:
  const std::function<void()> on_hangup_;
  UniqueFd signals_;  // signalfd
  absl::Time last_signal_ = absl::InfinitePast();
  UniqueFd news_;  // eventfd
};

}  // namespace quire
