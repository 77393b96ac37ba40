#include "engine/kv_events/kv_event_recorder.h"

namespace quire {

KvEvent* KvEventRecorder::Last(KvEvent::Kind kind) {
  return !events_.empty() && events_.back().kind == kind ? &events_.back() : nullptr;
}

void KvEventRecorder::OnStored(const CachedBlock& block) {
  KvEvent* event = Last(KvEvent::Kind::kStored);
  if (event == nullptr || !block.parent.has_value() || event->hashes.back() != *block.parent) {
    event = &events_.emplace_back();
    event->kind = KvEvent::Kind::kStored;
    event->parent = block.parent;
  }
  event->hashes.push_back(block.hash);
  event->tokens.insert(event->tokens.end(), block.tokens.begin(), block.tokens.end());
}

void KvEventRecorder::OnRemoved(uint64_t hash) {
  KvEvent* event = Last(KvEvent::Kind::kRemoved);
  if (event == nullptr) {
    event = &events_.emplace_back();
    event->kind = KvEvent::Kind::kRemoved;
  }
  event->hashes.push_back(hash);
}

void KvEventRecorder::OnCleared() { events_.emplace_back().kind = KvEvent::Kind::kCleared; }

}  // namespace quire
