#include "engine/engine.h"

#include <pthread.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/engine_config.h"
#include "engine/engine_parts.h"
#include "engine/inbox.h"
#include "engine/metrics/meters.h"
#include "engine/output_writer.h"
#include "engine/request_check.h"
#include "engine/watchdog.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "scheduler/queue_bounds.h"
#include "spdlog/spdlog.h"

namespace quire {

// Members above the line are shared; those below belong to the engine's
// thread.
class Engine::Impl {
 public:
  Impl(const EngineConfig& config, std::unique_ptr<EngineParts> parts)
      : config_(config),
        inbox_(std::make_shared<Inbox>()),
        queue_(config.max_num_queued_reqs, config.max_num_queued_tokens),
        metrics_(parts->model.max_model_len),
        parts_(std::move(parts)),
        kv_events_(parts_->scheduler.get(), config.kv_event_limits),
        watchdog_(config.watchdog_timeout, [this] { FailHung(); }) {
    parts_->scheduler->SetQueueObserver(
        [this](const QueueChange& change) { queue_changes_.push_back(change); });
    PublishStatus();
    thread_ = std::thread([this] { Run(); });
  }

  ~Impl() {
    admitting_ = false;
    inbox_->Close();
    thread_.join();
  }

  absl::StatusOr<std::shared_ptr<OutputStream>> Submit(Request request, OutputListener* listener);
  absl::Status CheckRoom(const RequestFlow& flow) const;
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
    bool touched;    // has events its listener must be told of
    bool is_broken;  // the model's logits were no numbers
  };

  absl::Status CheckAdmitting() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Run();
  bool Step();
  void Handle(InboxMessage message);
  void Add(const AddMessage& message);
  void Deliver(std::vector<SequenceEvent> events);
  void NoteBroken(ActiveRequest* active, const SequenceKey& key);
  void MirrorQueue();
  void Count(const SchedulerOutput& output);
  void Fail(const absl::Status& status);
  void FailHung();
  std::function<void(const absl::Status&)> FailureCallback();
  void FailAll(const absl::Status& status);
  void PublishStatus();

  const EngineConfig config_;
  const std::shared_ptr<Inbox> inbox_;
  std::atomic<bool> admitting_{true};
  std::atomic<bool> failed_{false};
  std::atomic<RequestId> next_id_{1};
  mutable absl::Mutex mutex_;
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
  int64_t num_prompt_tokens_ = 0;
  int64_t num_generated_tokens_ = 0;
  StepMeter steps_;
  KvEventSource kv_events_;
  Watchdog watchdog_;
  std::thread thread_;
};

absl::StatusOr<std::shared_ptr<OutputStream>> Engine::Impl::Submit(Request request,
                                                                   OutputListener* listener) {
  RETURN_IF_ERROR(CheckRequest(request, parts_->model));
  const RequestFlow flow = request.flow;
  const QueueLoad load = LoadOf(request);
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckAdmitting());
    RETURN_IF_ERROR(queue_.Check(request));
    queue_.Enter(flow, load);
    ++num_active_;
  }
  request.id = next_id_.fetch_add(1);
  auto stream = std::make_shared<OutputStream>(request.id, request.sampling.n, listener);
  const bool posted = inbox_->Post(
      AddMessage{std::make_shared<const Request>(std::move(request)), stream, absl::Now()});
  if (posted) return stream;
  absl::MutexLock lock(&mutex_);
  queue_.Leave(flow, load);
  --num_active_;
  return absl::UnavailableError("the engine has stopped; retry on another server");
}

absl::Status Engine::Impl::CheckAdmitting() const {
  if (failed_) return absl::UnavailableError("the engine has failed; retry on another server");
  if (!admitting_) return absl::UnavailableError("the server is shutting down");
  return absl::OkStatus();
}

absl::Status Engine::Impl::CheckRoom(const RequestFlow& flow) const {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckAdmitting());
  return queue_.CheckRoom(flow);
}

void Engine::Impl::StopAdmitting() {
  absl::MutexLock lock(&mutex_);
  admitting_ = false;
  status_.admitting = false;
}

bool Engine::Impl::WaitUntilIdle(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_active_ == 0; };
  return mutex_.AwaitWithDeadline(absl::Condition(&is_idle), deadline);
}

int64_t Engine::Impl::FlushPrefixCache() {
  auto promise = std::make_shared<std::promise<int64_t>>();
  std::future<int64_t> result = promise->get_future();
  const bool posted = inbox_->Post(
      CallMessage{[this, promise] { promise->set_value(parts_->scheduler->FlushPrefixCache()); }});
  return posted ? result.get() : 0;
}

EngineStatus Engine::Impl::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void Engine::Impl::PublishStatus() {
  MirrorQueue();
  const SchedulerStats stats = parts_->scheduler->stats();  // takes a while when many wait
  absl::MutexLock lock(&mutex_);
  status_.scheduler = stats;
  status_.num_steps = num_steps_;
  status_.num_prompt_tokens = num_prompt_tokens_;
  status_.num_generated_tokens = num_generated_tokens_;
  status_.admitting = admitting_;
  status_.failed = failed_;
}

void Engine::Impl::Run() {
  pthread_setname_np(pthread_self(), "quire-engine");
  bool progress = true;  // the last round scheduled or committed something
  while (!inbox_->closed()) {
    if (!progress) watchdog_.Rest();
    std::vector<InboxMessage> messages = inbox_->Take(/*wait=*/!progress);
    watchdog_.BeginRound();
    for (InboxMessage& message : messages) Handle(std::move(message));
    progress = Step();
    kv_events_.Flush();
    PublishStatus();
  }
  watchdog_.Rest();
  // What was posted before the inbox closed is answered, not dropped.
  for (InboxMessage& message : inbox_->Take(/*wait=*/false)) Handle(std::move(message));
  FailAll(absl::UnavailableError(failed_ ? "the engine has failed; retry on another server"
                                         : "the server is shutting down"));
  PublishStatus();
}

// One round: schedule and submit a step, then make the oldest one true, unless it may run on while
// the next is scheduled. False when there was nothing to do.
bool Engine::Impl::Step() {
  ModelRunner& runner = *parts_->runner;
  Scheduler& scheduler = *parts_->scheduler;
  StepClock stage(config_.step_trace);
  const SchedulerOutput output = scheduler.Schedule();
  Deliver(scheduler.TakeEvents());
  if (!output.empty()) {
    Count(output);
    stage.End(output.step, StepStage::kSchedule);
    steps_.Begin(output, absl::Now(), &metrics_);
    runner.Submit(output);
  }
  const int may_run_on = config_.async_scheduling && !output.empty() ? 1 : 0;
  if (runner.num_in_flight() > may_run_on) {
    StepClock result_stage(config_.step_trace);
    absl::StatusOr<StepResult> result = runner.Wait();
    if (!result.ok()) {
      Fail(result.status());
      return false;
    }
    steps_.End(absl::Now(), &metrics_);
    const uint64_t step = result->step;
    result_stage.End(step, StepStage::kWait);
    scheduler.Commit(*std::move(result));
    result_stage.End(step, StepStage::kCommit);
    Deliver(scheduler.TakeEvents());
    result_stage.End(step, StepStage::kDeliver);
    return true;
  }
  return !output.empty();
}

void Engine::Impl::Count(const SchedulerOutput& output) {
  ++num_steps_;
  for (const ScheduledSequence& sequence : output.sequences) {
    const int64_t end = std::min(sequence.start + sequence.num_new, sequence.num_prompt_tokens);
    num_prompt_tokens_ += std::max<int64_t>(0, end - sequence.start);
    num_generated_tokens_ += sequence.num_samples;
  }
}

// The device is lost: every stream ends retryably, nothing is admitted any more, the owner is told.
void Engine::Impl::Fail(const absl::Status& status) {
  const bool first = !failed_.exchange(true);
  inbox_->Close();
  FailAll(absl::UnavailableError(
      absl::StrCat("device error: ", status.message(), "; retry on another server")));
  const auto on_failure = FailureCallback();
  if (first && on_failure) on_failure(status);
}

// Watchdog's thread. The engine's may hang anywhere, so its streams are left to their reader.
void Engine::Impl::FailHung() {
  if (failed_.exchange(true)) return;
  inbox_->Close();
  const auto on_failure = FailureCallback();
  const auto status = absl::DeadlineExceededError(
      absl::StrCat("a step has not ended within ", absl::FormatDuration(config_.watchdog_timeout)));
  CHECK(on_failure) << status.message();  // nobody else would end the process
  on_failure(status);
}

std::function<void(const absl::Status&)> Engine::Impl::FailureCallback() {
  absl::MutexLock lock(&mutex_);
  status_.failed = true;
  return on_failure_;
}

void Engine::Impl::Handle(InboxMessage message) {
  Scheduler& scheduler = *parts_->scheduler;
  if (auto* add = std::get_if<AddMessage>(&message)) {
    Add(*add);
  } else if (auto* cancel = std::get_if<CancelMessage>(&message)) {
    scheduler.Cancel(cancel->request, cancel->reason);
  } else if (auto* cancel = std::get_if<CancelSequenceMessage>(&message)) {
    scheduler.CancelSequence(cancel->key, cancel->reason);
  } else if (auto* resume = std::get_if<ResumeMessage>(&message)) {
    scheduler.SetPaused(resume->key, false);
  } else {
    std::get<CallMessage>(message).call();
  }
}

void Engine::Impl::Add(const AddMessage& message) {
  const RequestId id = message.request->id;
  const auto [it, inserted] = active_.emplace(
      id, ActiveRequest{.writer = OutputWriter(message.stream, message.submitted, inbox_),
                        .request = message.request,
                        .meter = RequestMeter(*message.request, message.submitted),
                        .touched = false,
                        .is_broken = false});
  CHECK(inserted);
  const absl::Status status = parts_->scheduler->Add(message.request);
  if (status.ok()) return;
  it->second.meter.CountFailure(*message.request, absl::Now(), &metrics_);
  it->second.writer.Fail(status, absl::Now());
  it->second.writer.Notify();
  active_.erase(it);
  absl::MutexLock lock(&mutex_);
  queue_.Leave(message.request->flow, LoadOf(*message.request));
  --num_active_;
}

// What has begun to run leaves room for others, and what was preempted takes it again: whoever asks
// must hear of it at once, not when the scheduler is given the request.
void Engine::Impl::MirrorQueue() {
  if (queue_changes_.empty()) return;
  absl::MutexLock lock(&mutex_);
  for (const QueueChange& change : queue_changes_) {
    if (change.enters) {
      queue_.Enter(change.flow, change.load);
    } else {
      queue_.Leave(change.flow, change.load);
    }
  }
  queue_changes_.clear();
}

void Engine::Impl::Deliver(std::vector<SequenceEvent> events) {
  MirrorQueue();
  if (events.empty()) return;
  const absl::Time now = absl::Now();
  touched_.clear();
  for (size_t i = 0; i < events.size(); ++i) {
    SequenceEvent event = std::move(events[i]);
    const SequenceKey key = event.key;
    const auto it = active_.find(key.request);
    CHECK(it != active_.end()) << "event for request " << key.request;
    ActiveRequest& active = it->second;
    if (!active.touched) touched_.push_back(key.request);
    active.touched = true;
    if (event.kind == SequenceEvent::Kind::kFinished && event.reason == FinishReason::kError) {
      NoteBroken(&active, key);
      for (SequenceEvent& further : parts_->scheduler->TakeEvents()) {
        events.push_back(std::move(further));
      }
    }
    active.meter.Count(*active.request, event, now, &metrics_);
    if (active.writer.Write(std::move(event), now)) parts_->scheduler->SetPaused(key, true);
  }
  int64_t num_finished = 0;
  for (const RequestId request : touched_) {
    const auto it = active_.find(request);
    it->second.touched = false;
    it->second.writer.Notify();
    if (!it->second.writer.finished()) continue;
    active_.erase(it);
    ++num_finished;
  }
  if (num_finished == 0) return;
  absl::MutexLock lock(&mutex_);
  num_active_ -= num_finished;
}

// One of its continuations has broken logits: the request has no answer, so the others end, too.
void Engine::Impl::NoteBroken(ActiveRequest* active, const SequenceKey& key) {
  active->writer.SetFailure(
      key.index, absl::InternalError("the model produced logits that are no numbers (NaN)"));
  if (active->is_broken) return;
  active->is_broken = true;
  metrics_.broken_logits.Add();
  if (metrics_.broken_logits.value() == 1) {
    spdlog::error(
        "the model produced logits that are no numbers (NaN), and its request was ended; "
        "quire_broken_logits_total counts further ones. The model's files are damaged, or its "
        "values do not fit --dtype {}",
        DTypeName(parts_->model.dtype));
  }
  parts_->scheduler->Cancel(key.request, FinishReason::kError);
}

void Engine::Impl::FailAll(const absl::Status& status) {
  const absl::Time now = absl::Now();
  for (auto& [id, active] : active_) {
    active.meter.CountFailure(*active.request, now, &metrics_);
    active.writer.Fail(status, now);
    active.writer.Notify();
  }
  absl::MutexLock lock(&mutex_);
  num_active_ -= static_cast<int64_t>(active_.size());
  active_.clear();
}

Engine::Engine() = default;
Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, OpenBackend(config.backend_options()));
  return Open(config, std::move(backend));
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineConfig& config,
                                                     std::unique_ptr<Backend> backend) {
  ASSIGN_OR_RETURN(std::unique_ptr<EngineParts> parts, OpenEngineParts(config, std::move(backend)));
  std::unique_ptr<Engine> engine(new Engine());
  engine->impl_ = std::make_unique<Impl>(config, std::move(parts));
  return engine;
}

absl::StatusOr<std::shared_ptr<OutputStream>> Engine::Submit(Request request,
                                                             OutputListener* listener) {
  return impl_->Submit(std::move(request), listener);
}

absl::Status Engine::CheckRoom(const RequestFlow& flow) const { return impl_->CheckRoom(flow); }

void Engine::Cancel(RequestId request, FinishReason reason) {
  impl_->Post(CancelMessage{request, reason});
}

void Engine::CancelSequence(const SequenceKey& key, FinishReason reason) {
  impl_->Post(CancelSequenceMessage{key, reason});
}

void Engine::StopAdmitting() { impl_->StopAdmitting(); }
bool Engine::WaitUntilIdle(absl::Time deadline) { return impl_->WaitUntilIdle(deadline); }
int64_t Engine::FlushPrefixCache() { return impl_->FlushPrefixCache(); }
void Engine::SubscribeKvEvents(std::optional<uint64_t> from, std::function<void()> on_news,
                               const std::function<void(absl::StatusOr<KvSubscription>)>& done) {
  const bool posted = impl_->Post(CallMessage{[this, from, on_news = std::move(on_news), done] {
    done(impl_->kv_events().Subscribe(from, on_news));
  }});
  if (!posted) done(absl::UnavailableError("the engine has ended; retry on another server"));
}

void Engine::UnsubscribeKvEvents(uint64_t id) {
  impl_->Post(CallMessage{[this, id] { impl_->kv_events().Unsubscribe(id); }});
}

KvEventLog& Engine::kv_event_log() { return impl_->kv_events().log(); }
EngineStatus Engine::status() const { return impl_->status(); }
const EngineMetrics& Engine::metrics() const { return impl_->metrics(); }
QueueLoad Engine::QueueHeldBy(uint64_t flow) const { return impl_->QueueHeldBy(flow); }
const ModelInfo& Engine::model_info() const { return impl_->parts().model; }
const StartStages& Engine::start_stages() const { return impl_->parts().stages.stages(); }
const MemoryLedger& Engine::memory_ledger() const { return impl_->parts().ledger; }

void Engine::SetFailureCallback(std::function<void(const absl::Status&)> on_failure) {
  impl_->SetFailureCallback(std::move(on_failure));
}

}  // namespace quire
