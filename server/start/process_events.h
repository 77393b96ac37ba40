// ProcessEvents: lets the main thread sleep until a signal asks the process to end or another
// thread has news. Signals are taken from a descriptor, never in a handler.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

class ProcessEvents {
 public:
  enum class Kind : uint8_t { kSignal, kNews, kTimeout };

  // Blocks SIGTERM, SIGINT and SIGHUP in this thread and all that it starts; ignores SIGPIPE. Wait
  // calls `on_hangup` for each SIGHUP. To be made before any other thread.
  explicit ProcessEvents(std::function<void()> on_hangup);

  // Says that there is news. Any thread.
  void Notify();

  // The next event; kTimeout at the deadline, which is a time of MonotonicNow. A repetition of the
  // same signal is not an event: Ctrl-C reaches a whole process group, and a script around this
  // process passes it on; timeout(1) signals its command, and then the command's whole group.
  Kind Wait(absl::Time deadline = absl::InfiniteFuture());

 private:
  // A SIGTERM or SIGINT that was taken.
  struct Taken {
    uint32_t number = 0;
    bool may_be_passed_on = false;  // a Ctrl-C that our parent may have had, too
    pid_t sender = 0;
    absl::Time time = absl::InfinitePast();
  };

  bool IsLastOnceMore(const Taken& taken) const;

  const std::function<void()> on_hangup_;
  UniqueFd signals_;  // signalfd
  Taken last_;
  UniqueFd news_;  // eventfd
};

}  // namespace quire
