// KvEventSource: knows whether there are subscribers to events of the prefix cache, and gives them
// the events. While there are none, the block manager reports nothing and nothing is kept. Engine
// thread only, except log().
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

// The beginning of a subscription.
struct KvSubscription {
  uint64_t id = 0;             // for Unsubscribe
  uint64_t next_sequence = 0;  // in the log: the batch after the snapshot, or the requested one
  // The blocks that can be found now, parents before their children. Empty when the subscriber
  // continues where it was.
  std::optional<std::vector<KvEvent>> snapshot;
};

class KvEventSource {
 public:
  KvEventSource(Scheduler* scheduler, const KvEventLog::Limits& limits)
      : scheduler_(*scheduler), log_(limits) {}

  // Continues with batch `from`; OUT_OF_RANGE when that batch is no longer or not yet there.
  // Without `from`, begins with the current blocks.
  absl::StatusOr<KvSubscription> Subscribe(std::optional<uint64_t> from,
                                           std::function<void()> on_news);
  void Unsubscribe(uint64_t id);

  // Passes on the events since the last call.
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
