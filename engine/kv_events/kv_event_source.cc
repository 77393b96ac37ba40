#include "engine/kv_events/kv_event_source.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {

absl::StatusOr<KvSubscription> KvEventSource::Subscribe(std::optional<uint64_t> from,
                                                        std::function<void()> on_news) {
  Flush();
  KvSubscription subscription;
  if (from.has_value()) {
    if (!is_listening_ || *from < log_.first_sequence() || *from > log_.next_sequence()) {
      return absl::OutOfRangeError(
          absl::StrCat("batch ", *from, " is not kept; subscribe from 0, the state of now"));
    }
    subscription.next_sequence = *from;
  } else {
    if (!std::exchange(is_listening_, true)) scheduler_.SetKvEventListener(&recorder_);
    KvEventRecorder snapshot;
    scheduler_.ForEachCachedBlock([&](const CachedBlock& block) { snapshot.OnStored(block); });
    subscription.snapshot = snapshot.Take();
    subscription.next_sequence = log_.next_sequence();
  }
  subscription.id = log_.AddListener(std::move(on_news));
  return subscription;
}

void KvEventSource::Unsubscribe(uint64_t id) {
  log_.RemoveListener(id);
  if (log_.has_listeners() || !std::exchange(is_listening_, false)) return;
  scheduler_.SetKvEventListener(nullptr);
  recorder_.Take();
  log_.Break();  // what happens from here on is not recorded
}

}  // namespace quire
