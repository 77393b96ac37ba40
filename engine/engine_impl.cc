#include "engine/engine_impl.h"

#include <pthread.h>

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/request_check.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace quire {

namespace {

// All that may wait, all that runs at once, and as many whose answers are not read to their ends.
int64_t MostStreams(const EngineConfig& config, const EngineParts& parts) {
  return config.max_num_queued_reqs + 2 * parts.model.max_num_seqs;
}

}  // namespace

Engine::Impl::Impl(const EngineConfig& config, std::unique_ptr<EngineParts> parts)
    : config_(config),
      inbox_(std::make_shared<Inbox>()),
      streams_(std::make_shared<StreamBounds>(MostStreams(config, *parts))),
      queue_(config.max_num_queued_reqs, config.max_num_queued_tokens),
      metrics_(parts->model.max_model_len,
               config.count_experts ? NumExperts(parts->model.config) : std::vector<int32_t>()),
      parts_(std::move(parts)),
      kv_events_(parts_->scheduler.get(), config.kv_event_limits),
      watchdog_(config.watchdog_timeout, [this] { FailHung(); }) {
  parts_->scheduler->SetQueueObserver(
      [this](const QueueChange& change) { queue_changes_.push_back(change); });
  if (const int64_t* const counts = parts_->runner->expert_counts(); counts != nullptr) {
    metrics_.expert_tokens.Begin(counts);  // of the warm-up
  }
  PublishStatus();
  thread_ = std::thread([this] { Run(); });
}

Engine::Impl::~Impl() {
  admitting_ = false;
  inbox_->Close();
  thread_.join();
}

absl::StatusOr<std::vector<std::shared_ptr<OutputStream>>> Engine::Impl::Submit(
    std::vector<Request> requests, OutputListener* listener) {
  int64_t num_continuations = 0;
  for (const Request& request : requests) {
    RETURN_IF_ERROR(CheckRequest(request, parts_->model));
    num_continuations += request.sampling.n;
  }
  const RequestFlow flow = requests.front().flow;
  std::vector<std::shared_ptr<OutputStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckAdmitting());
    RETURN_IF_ERROR(queue_.Check(requests));
    RETURN_IF_ERROR(streams_->Check(flow, num_continuations));
    for (Request& request : requests) {
      request.id = next_id_++;
      queue_.Enter(flow, LoadOf(request));
      streams.push_back(std::make_shared<OutputStream>(request.id, request.sampling.n, listener,
                                                       streams_->Take(flow, request.sampling.n)));
    }
    num_active_ += static_cast<int64_t>(requests.size());
  }
  const absl::Time now = MonotonicNow();
  int64_t num_left = static_cast<int64_t>(requests.size());
  for (size_t i = 0; i < requests.size(); ++i, --num_left) {
    auto request = std::make_shared<const Request>(std::move(requests[i]));
    if (inbox_->Post(AddMessage{request, streams[i], now})) continue;
    // Those that were posted are the engine's to end; nobody reads their streams.
    absl::MutexLock lock(&mutex_);
    NoteEnded(num_left);
    return absl::UnavailableError("the engine has stopped; retry on another server");
  }
  return streams;
}

absl::Status Engine::Impl::CheckAdmitting() const {
  if (failed_) return absl::UnavailableError("the engine has failed; retry on another server");
  if (!admitting_) return absl::UnavailableError("the server is shutting down");
  return absl::OkStatus();
}

absl::Status Engine::Impl::CheckRoom(const RequestFlow& flow, int64_t num_continuations) const {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckAdmitting());
  RETURN_IF_ERROR(queue_.CheckRoom(flow, num_continuations));
  return streams_->Check(flow, num_continuations);
}

void Engine::Impl::StopAdmitting() {
  absl::MutexLock lock(&mutex_);
  admitting_ = false;
  status_.admitting = false;
}

void Engine::Impl::NoteEnded(int64_t num_requests) {
  num_active_ -= num_requests;
  if (num_active_ == 0) became_idle_.SignalAll();
}

bool Engine::Impl::WaitUntilIdle(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_active_ == 0; };
  return became_idle_.Await(&mutex_, deadline, is_idle);
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
    HandleAll(std::move(messages));
    progress = Step();
    kv_events_.Flush();
    PublishStatus();
  }
  watchdog_.Rest();
  // Messages that were posted before the inbox closed are answered, not dropped.
  HandleAll(inbox_->Take(/*wait=*/false));
  FailAll(absl::UnavailableError(failed_ ? "the engine has failed; retry on another server"
                                         : "the server is shutting down"));
  PublishStatus();
}

// One round: schedule and submit a step, then make the oldest one true, unless it may run on while
// the next is scheduled. A step with a constrained row that reads a token of the step before comes
// true only up to its logits: then that step is made true first, and the masks follow while the
// forward pass runs. False when there was nothing to do.
bool Engine::Impl::Step() {
  ModelRunner& runner = *parts_->runner;
  Scheduler& scheduler = *parts_->scheduler;
  StepClock stage(config_.step_trace);
  const SchedulerOutput output = scheduler.Schedule();
  Deliver(scheduler.TakeEvents());
  bool committed = false;
  if (!output.empty()) {
    Count(output);
    stage.End(output.step, StepStage::kSchedule);
    steps_.Begin(output, MonotonicNow(), &metrics_);
    runner.Submit(output);
    if (MasksNeedResult(output)) {
      if (!CommitOldest()) return false;
      committed = true;
    }
    runner.Sample();
  }
  const int may_run_on = config_.async_scheduling && !output.empty() ? 1 : 0;
  if (runner.num_in_flight() > may_run_on) {
    if (!CommitOldest()) return false;
    committed = true;
  }
  if (committed) {
    StepClock deliver_stage(config_.step_trace);
    Deliver(scheduler.TakeEvents());
    deliver_stage.End(last_committed_, StepStage::kDeliver);
  }
  return committed || !output.empty();
}

// Whether a mask depends on a token that only the device knows yet.
bool Engine::Impl::MasksNeedResult(const SchedulerOutput& output) {
  return std::any_of(output.sequences.begin(), output.sequences.end(),
                     [](const ScheduledSequence& sequence) {
                       return sequence.constraint != nullptr && sequence.input_on_device;
                     });
}

// Waits for the oldest step in flight and makes it true. False when the device has failed.
bool Engine::Impl::CommitOldest() {
  ModelRunner& runner = *parts_->runner;
  StepClock stage(config_.step_trace);
  absl::StatusOr<StepResult> result = runner.Wait();
  if (!result.ok()) {
    Fail(result.status());
    return false;
  }
  steps_.End(MonotonicNow(), &metrics_);
  if (const int64_t* const counts = runner.expert_counts(); counts != nullptr) {
    metrics_.expert_tokens.Update(counts);
  }
  last_committed_ = result->step;
  stage.End(last_committed_, StepStage::kWait);
  parts_->scheduler->Commit(*std::move(result));
  stage.End(last_committed_, StepStage::kCommit);
  return true;
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

// Who is cancelled in the round in which it comes never gets as far as the scheduler: clients that
// are gone at once cost the others next to nothing.
void Engine::Impl::HandleAll(std::vector<InboxMessage> messages) {
  absl::flat_hash_map<RequestId, FinishReason> cancelled;
  for (const InboxMessage& message : messages) {
    const auto* cancel = std::get_if<CancelMessage>(&message);
    if (cancel != nullptr) cancelled.emplace(cancel->request, cancel->reason);
  }
  for (InboxMessage& message : messages) {
    const auto* add = std::get_if<AddMessage>(&message);
    if (add == nullptr) {
      Handle(std::move(message));
      continue;
    }
    const auto it = cancelled.find(add->request->id);
    Add(*add, it == cancelled.end() ? FinishReason::kNone : it->second);
  }
}

void Engine::Impl::Handle(InboxMessage message) {
  Scheduler& scheduler = *parts_->scheduler;
  if (auto* cancel = std::get_if<CancelMessage>(&message)) {
    scheduler.Cancel(cancel->request, cancel->reason);
  } else if (auto* cancel = std::get_if<CancelSequenceMessage>(&message)) {
    scheduler.CancelSequence(cancel->key, cancel->reason);
  } else if (auto* resume = std::get_if<ResumeMessage>(&message)) {
    scheduler.SetPaused(resume->key, false);
  } else {
    std::get<CallMessage>(message).call();
  }
}

void Engine::Impl::Add(const AddMessage& message, FinishReason cancelled) {
  const RequestId id = message.request->id;
  const auto [it, inserted] = active_.emplace(
      id, ActiveRequest{.writer = OutputWriter(message.stream, message.submitted, inbox_),
                        .request = message.request,
                        .meter = RequestMeter(*message.request, message.submitted),
                        .touched = false,
                        .error = absl::OkStatus()});
  CHECK(inserted);
  if (cancelled != FinishReason::kNone) {
    Refuse(id, cancelled, absl::OkStatus());
    return;
  }
  const absl::Status status = parts_->scheduler->Add(message.request);
  if (!status.ok()) Refuse(id, FinishReason::kError, status);
}

// Ends a request that the scheduler does not have.
void Engine::Impl::Refuse(RequestId id, FinishReason reason, const absl::Status& status) {
  const auto it = active_.find(id);
  const std::shared_ptr<const Request> request = it->second.request;
  const absl::Time now = MonotonicNow();
  it->second.meter.CountEnds(*request, reason, now, &metrics_);
  it->second.writer.End(reason, status, now);
  it->second.writer.Notify();
  active_.erase(it);
  absl::MutexLock lock(&mutex_);
  queue_.Leave(request->flow, LoadOf(*request));
  NoteEnded(1);
}

// A request that begins to run leaves room in the queue for others, and a preempted one takes room
// again. queue_ follows at once, so that a caller hears whether there is room when it asks, not
// only when the scheduler is given the request.
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
  const absl::Time now = MonotonicNow();
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
      NoteError(&active, event);
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
  NoteEnded(num_finished);
}

// One of its continuations cannot go on: the request has no answer, so the others end, too.
void Engine::Impl::NoteError(ActiveRequest* active, const SequenceEvent& event) {
  const bool is_first = active->error.ok();
  if (is_first) active->error = event.error;
  active->writer.SetFailure(event.key.index, active->error);
  if (!is_first) return;
  if (event.is_broken) {
    metrics_.broken_logits.Add();
    if (metrics_.broken_logits.value() == 1) {
      spdlog::error(
          "the model produced logits that are no numbers (NaN), and its request was ended; "
          "quire_broken_logits_total counts further ones. The model's files are damaged, or its "
          "values do not fit --dtype {}",
          DTypeName(parts_->model.dtype));
    }
  }
  parts_->scheduler->Cancel(event.key.request, FinishReason::kError);
}

void Engine::Impl::FailAll(const absl::Status& status) {
  const absl::Time now = MonotonicNow();
  for (auto& [id, active] : active_) {
    active.meter.CountEnds(*active.request, FinishReason::kError, now, &metrics_);
    active.writer.Fail(status, now);
    active.writer.Notify();
  }
  absl::MutexLock lock(&mutex_);
  NoteEnded(static_cast<int64_t>(active_.size()));
  active_.clear();
}

}  // namespace quire
