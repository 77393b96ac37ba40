#include "engine/kv_events/kv_event_log.h"

#include <utility>

#include "kernels/base/check.h"

namespace quire {

namespace {

size_t BytesOf(const KvEventBatch& batch) {
  size_t num_bytes = sizeof(batch);
  for (const KvEvent& event : batch.events) {
    num_bytes += sizeof(event) + event.hashes.size() * sizeof(event.hashes[0]) +
                 event.tokens.size() * sizeof(event.tokens[0]);
  }
  return num_bytes;
}

}  // namespace

void KvEventLog::Append(std::vector<KvEvent> events, absl::Time time) {
  CHECK(!events.empty());
  auto batch = std::make_shared<KvEventBatch>();
  batch->time = time;
  batch->events = std::move(events);
  {
    absl::MutexLock lock(&mutex_);
    batch->sequence = next_sequence_++;
    num_bytes_ += BytesOf(*batch);
    batches_.push_back(std::move(batch));
    while (batches_.size() > limits_.max_batches ||
           (num_bytes_ > limits_.max_bytes && batches_.size() > 1)) {
      Drop();
    }
  }
  TellListeners();
}

void KvEventLog::Drop() {
  num_bytes_ -= BytesOf(*batches_.front());
  batches_.pop_front();
}

void KvEventLog::Break() {
  {
    absl::MutexLock lock(&mutex_);
    batches_.clear();
    num_bytes_ = 0;
    ++next_sequence_;
  }
  TellListeners();
}

KvEventLog::ReadResult KvEventLog::Read(uint64_t sequence) const {
  absl::MutexLock lock(&mutex_);
  const uint64_t first = next_sequence_ - batches_.size();
  if (sequence < first || sequence > next_sequence_) return {Outcome::kLost, nullptr};
  if (sequence == next_sequence_) {
    return {closed_ ? Outcome::kClosed : Outcome::kNothingYet, nullptr};
  }
  return {Outcome::kBatch, batches_[sequence - first]};
}

uint64_t KvEventLog::first_sequence() const {
  absl::MutexLock lock(&mutex_);
  return next_sequence_ - batches_.size();
}

uint64_t KvEventLog::next_sequence() const {
  absl::MutexLock lock(&mutex_);
  return next_sequence_;
}

uint64_t KvEventLog::AddListener(std::function<void()> on_news) {
  absl::MutexLock lock(&mutex_);
  const uint64_t id = next_listener_++;
  listeners_.emplace(id, std::move(on_news));
  return id;
}

void KvEventLog::RemoveListener(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  listeners_.erase(id);
}

bool KvEventLog::has_listeners() const {
  absl::MutexLock lock(&mutex_);
  return !listeners_.empty();
}

void KvEventLog::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  TellListeners();
}

// Without the lock: a listener may read at once.
void KvEventLog::TellListeners() {
  std::vector<std::function<void()>> listeners;
  {
    absl::MutexLock lock(&mutex_);
    listeners.reserve(listeners_.size());
    for (const auto& [id, on_news] : listeners_) listeners.push_back(on_news);
  }
  for (const auto& on_news : listeners) on_news();
}

}  // namespace quire
