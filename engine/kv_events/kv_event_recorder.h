// KvEventRecorder: gathers a step's events; runs of blocks that follow each other become one event.
// Engine thread only.
#pragma once

#include <utility>
#include <vector>

#include "engine/kv_events/kv_event.h"
#include "kvcache/kv_event_listener.h"

namespace quire {

class KvEventRecorder final : public KvEventListener {
 public:
  void OnStored(const CachedBlock& block) override;
  void OnRemoved(uint64_t hash) override;
  void OnCleared() override;

  bool empty() const { return events_.empty(); }
  std::vector<KvEvent> Take() { return std::exchange(events_, {}); }

 private:
  // The last event, if it is of this kind.
  KvEvent* Last(KvEvent::Kind kind);

  std::vector<KvEvent> events_;
};

}  // namespace quire
