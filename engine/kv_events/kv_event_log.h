// KvEventLog: the latest batches of events, numbered without gaps, for any number of readers that
// each keep their place. The engine's thread appends and never waits for a reader. A reader that
// falls too far behind loses batches, and the log tells it so. Any thread reads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/kv_events/kv_event.h"

namespace quire {

class KvEventLog {
 public:
  struct Limits {
    size_t max_batches = 10'000;
    size_t max_bytes = size_t{64} << 20;  // of tokens and hashes, for any number of batches
  };
  // The number of the first batch. It is not 0, because the batches of a snapshot have the numbers
  // before the number of the state that it shows.
  static constexpr uint64_t kFirstSequence = uint64_t{1} << 20;

  enum class Outcome : uint8_t { kBatch, kNothingYet, kLost, kClosed };
  struct ReadResult {
    Outcome outcome = Outcome::kNothingYet;
    std::shared_ptr<const KvEventBatch> batch;  // kBatch
  };

  explicit KvEventLog(const Limits& limits) : limits_(limits) {}

  // The engine's thread; `events` are not empty.
  void Append(std::vector<KvEvent> events, absl::Time time);
  // The next events do not follow the earlier ones: a reader that wants to continue has lost
  // events.
  void Break();

  // The batch with this number. kLost: it is no longer there; or its number is beyond the next
  // batch, so that a reader cannot wait for it.
  ReadResult Read(uint64_t sequence) const;
  uint64_t first_sequence() const;  // of the oldest readable batch, or next_sequence()
  uint64_t next_sequence() const;

  // `on_news` is called, on the engine's thread or Close's, after each batch; it must be quick.
  // After RemoveListener it may be called once more.
  uint64_t AddListener(std::function<void()> on_news);
  void RemoveListener(uint64_t id);
  bool has_listeners() const;

  // No more batches will come. Readers hear this when they have read the rest.
  void Close();

 private:
  void Drop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellListeners();

  const Limits limits_;
  mutable absl::Mutex mutex_;
  std::deque<std::shared_ptr<const KvEventBatch>> batches_ ABSL_GUARDED_BY(mutex_);
  size_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = kFirstSequence;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::btree_map<uint64_t, std::function<void()>> listeners_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_listener_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace quire
