// KvEventSource: whether anybody wants to hear of the prefix cache, and what they hear. While there
// is nobody, the block manager tells nothing and nothing is kept. Engine thread only, but for
// log().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/kv_events/kv_event_log.h"
#include "engine/kv_events/kv_event_recorder.h"
#include "kernels/base/clock.h"
#include "scheduler/scheduler.h"

namespace quire {

// How a subscription begins.
struct KvSubscription {
  uint64_t id = 0;             // for Unsubscribe
  uint64_t next_sequence = 0;  // of the log: what follows the snapshot, or what was asked for
  // The blocks that can be found now, parents before their children; nothing, when the subscriber
  // goes on where it was.
  std::optional<std::vector<KvEvent>> snapshot;
};

class KvEventSource {
 public:
  KvEventSource(Scheduler* scheduler, const KvEventLog::Limits& limits)
      : scheduler_(*scheduler), log_(limits) {}

  // Goes on with batch `from`, OUT_OF_RANGE when that is no longer or not yet there; or begins with
  // what there is now.
  absl::StatusOr<KvSubscription> Subscribe(std::optional<uint64_t> from,
                                           std::function<void()> on_news);
  void Unsubscribe(uint64_t id);

  // Passes on what has happened since the last call.
  void Flush() {
    if (!recorder_.empty()) log_.Append(recorder_.Take(), WallNow());
  }

  // Any thread.
  KvEventLog& log() { return log_; }

 private:
  Scheduler& scheduler_;
  KvEventLog log_;
  KvEventRecorder recorder_;
  bool is_listening_ = false;
};

}  // namespace quire
