// Inbox: how other threads reach the engine's thread. Any thread posts; the engine's thread takes
// all messages at once before each step, and sleeps here when there is nothing to run.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/output_stream.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_output.h"

namespace quire {

struct AddMessage {
  std::shared_ptr<const Request> request;
  std::shared_ptr<OutputStream> stream;
  absl::Time submitted;
};
struct CancelMessage {
  RequestId request;
  FinishReason reason;
};
struct CancelSequenceMessage {
  SequenceKey key;
  FinishReason reason;
};
// The reader of this sequence's full queue has made room.
struct ResumeMessage {
  SequenceKey key;
};
// Runs on the engine's thread between two steps.
struct CallMessage {
  std::function<void()> call;
};
using InboxMessage =
    std::variant<AddMessage, CancelMessage, CancelSequenceMessage, ResumeMessage, CallMessage>;

class Inbox {
 public:
  // False when closed: the message was dropped.
  bool Post(InboxMessage message) {
    absl::MutexLock lock(&mutex_);
    if (closed_) return false;
    messages_.push_back(std::move(message));
    return true;
  }

  // Engine's thread: all messages in order; with `wait`, sleeps until there is one or the inbox
  // closes.
  std::vector<InboxMessage> Take(bool wait) {
    absl::MutexLock lock(&mutex_);
    if (wait) mutex_.Await(absl::Condition(this, &Inbox::HasNews));
    return std::exchange(messages_, {});
  }

  // Further posts are dropped; what was posted before can still be taken.
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  bool closed() const {
    absl::MutexLock lock(&mutex_);
    return closed_;
  }

 private:
  bool HasNews() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return closed_ || !messages_.empty(); }

  mutable absl::Mutex mutex_;
  std::vector<InboxMessage> messages_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quire
