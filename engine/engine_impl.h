// What an Engine is made of: the state that its thread owns, and the little that is shared with
// others. engine_impl.cc runs it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "engine/engine.h"
#include "engine/engine_config.h"
#include "engine/engine_parts.h"
#include "engine/inbox.h"
#include "engine/metrics/meters.h"
#include "engine/output_writer.h"
#include "engine/stream_bounds.h"
#include "engine/watchdog.h"
#include "kernels/base/clock.h"
#include "scheduler/queue_bounds.h"

namespace quire {

// Members above the line are shared; those below belong to the engine's thread.
class Engine::Impl {
 public:
  Impl(const EngineConfig& config, std::unique_ptr<EngineParts> parts);
  ~Impl();

  absl::StatusOr<std::vector<std::shared_ptr<OutputStream>>> Submit(std::vector<Request> requests,
                                                                    OutputListener* listener);
  absl::Status CheckRoom(const RequestFlow& flow, int64_t num_continuations) const;
  bool Post(InboxMessage message) { return inbox_->Post(std::move(message)); }
  KvEventSource& kv_events() { return kv_events_; }
  void StopAdmitting();
  bool WaitUntilIdle(absl::Time deadline);
  int64_t FlushPrefixCache();
  EngineStatus status() const;
  const EngineParts& parts() const { return *parts_; }
  const EngineMetrics& metrics() const { return metrics_; }
  QueueLoad QueueHeldBy(uint64_t flow) const {
    absl::MutexLock lock(&mutex_);
    return queue_.HeldBy(flow);
  }
  void SetFailureCallback(std::function<void(const absl::Status&)> on_failure) {
    absl::MutexLock lock(&mutex_);
    on_failure_ = std::move(on_failure);
  }

 private:
  // A request from Submit to the end of its last continuation.
  struct ActiveRequest {
    OutputWriter writer;
    std::shared_ptr<const Request> request;
    RequestMeter meter;
    bool touched;        // has events its listener must be told of
    absl::Status error;  // with which its first continuation that could not go on has ended
  };

  absl::Status CheckAdmitting() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Run();
  bool Step();
  void HandleAll(std::vector<InboxMessage> messages);
  void Handle(InboxMessage message);
  void Add(const AddMessage& message, FinishReason cancelled);
  // This many requests no longer have a stream to write to. Wakes threads that wait for the last
  // one.
  void NoteEnded(int64_t num_requests) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refuse(RequestId id, FinishReason reason, const absl::Status& status);
  void Deliver(std::vector<SequenceEvent> events);
  void NoteError(ActiveRequest* active, const SequenceEvent& event);
  static bool MasksNeedResult(const SchedulerOutput& output);
  bool CommitOldest();
  void MirrorQueue();
  void Count(const SchedulerOutput& output);
  void Fail(const absl::Status& status);
  void FailHung();
  std::function<void(const absl::Status&)> FailureCallback();
  void FailAll(const absl::Status& status);
  void PublishStatus();

  const EngineConfig config_;
  const std::shared_ptr<Inbox> inbox_;
  const std::shared_ptr<StreamBounds> streams_;
  std::atomic<bool> admitting_{true};
  std::atomic<bool> failed_{false};
  mutable absl::Mutex mutex_;
  MonotonicCondVar became_idle_;
  RequestId next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  QueueBounds queue_ ABSL_GUARDED_BY(mutex_);  // what is in the inbox, and the scheduler's queue
  EngineStatus status_ ABSL_GUARDED_BY(mutex_);
  int64_t num_active_ ABSL_GUARDED_BY(mutex_) = 0;  // accepted and unfinished requests
  std::function<void(const absl::Status&)> on_failure_ ABSL_GUARDED_BY(mutex_);
  EngineMetrics metrics_;  // written by the engine's thread
  // ------------------------------------------------------------------------------------------------
  std::unique_ptr<EngineParts> parts_;
  absl::flat_hash_map<RequestId, ActiveRequest> active_;
  std::vector<RequestId> touched_;
  std::vector<QueueChange> queue_changes_;  // of the scheduler's, not yet in queue_
  uint64_t num_steps_ = 0;
  uint64_t last_committed_ = 0;  // step
  int64_t num_prompt_tokens_ = 0;
  int64_t num_generated_tokens_ = 0;
  StepMeter steps_;
  KvEventSource kv_events_;
  Watchdog watchdog_;
  std::thread thread_;
};

}  // namespace quire
