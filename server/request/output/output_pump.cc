#include "server/request/output/output_pump.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/clock.h"
#include "server/request/output/access_tokens.h"
#include "server/request/retry_pushback.h"

namespace quire {

namespace {

// The most that is taken from one stream before the others get their turn, and the most that
// responses may hold while their client does not read. Both count tokens; a token with logprobs
// counts as several.
constexpr int64_t kMostAtOnce = 512;
constexpr int64_t kLogprobCost = 4;

int64_t CostOf(const SequenceEvent& event) {
  if (event.logprobs == nullptr) return 1;
  return kLogprobCost * (1 + static_cast<int64_t>(event.logprobs->top.size()));
}

}  // namespace

bool OutputPump::KeptAnswer::Add(const AnswerPart& part) {
  const auto num_bytes = static_cast<int64_t>(NumBytes(part, kMemoryBytes));
  if (!account_.Take(num_bytes)) return false;
  num_bytes_ += num_bytes;
  return true;
}

OutputPump::OutputPump(SequenceCanceller* canceller, absl::Duration stall_timeout,
                       int64_t max_kept_bytes)
    : canceller_(canceller),
      stall_timeout_(stall_timeout),
      kept_answers_(max_kept_bytes),
      thread_([this] { Run(); }) {}

OutputPump::~OutputPump() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    news_.Signal();
  }
  thread_.join();
}

void OutputPump::Add(RunningRequest request) {
  const RequestId id = request.stream->request_id();
  auto entry = std::make_unique<Entry>();
  entry->num_open = request.stream->num_continuations();
  if (request.writer->KeepsAnswer()) {
    entry->kept = std::make_unique<KeptAnswer>(&kept_answers_, request.lease.principal());
  }
  entry->request = std::move(request);
  absl::MutexLock lock(&mutex_);
  entry->forced_end = end_all_;
  Entry* added = entry.get();
  CHECK(entries_.emplace(id, std::move(entry)).second) << "request " << id << " added twice";
  QueueIfReady(added);  // events that came before this call were not announced to anyone
}

void OutputPump::Abandon(RequestId id) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(id);
  if (it != entries_.end()) ForceEnd(it->second.get(), absl::CancelledError("the client is gone"));
}

void OutputPump::EndAll(absl::Status status) {
  CHECK(!status.ok());
  absl::MutexLock lock(&mutex_);
  end_all_ = std::move(status);
  for (auto& [id, entry] : entries_) ForceEnd(entry.get(), end_all_);
}

void OutputPump::OnOutput(const std::shared_ptr<OutputStream>& stream) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(stream->request_id());
  if (it != entries_.end()) MarkPending(it->second.get());
}

void OutputPump::OnWriterReady(RequestId id) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end() || !it->second->busy) return;  // ended early meanwhile
  it->second->busy = false;
  --num_busy_;
  QueueIfReady(it->second.get());
}

void OutputPump::MarkPending(Entry* entry) {
  entry->pending = true;
  QueueIfReady(entry);
}

void OutputPump::QueueIfReady(Entry* entry) {
  if (!entry->pending || entry->busy || entry->queued) return;
  entry->queued = true;
  queue_.push_back(entry->request.stream->request_id());
  news_.Signal();
}

void OutputPump::ForceEnd(Entry* entry, const absl::Status& status) {
  entry->forced_end = status;
  if (entry->busy) --num_busy_;
  entry->busy = false;
  MarkPending(entry);
}

void OutputPump::EndStalled(absl::Time now) {
  next_stall_check_ = now + stall_timeout_ / 4;
  for (auto& [id, entry] : entries_) {
    if (!entry->busy || now - entry->busy_since < stall_timeout_) continue;
    ForceEnd(entry.get(), absl::ResourceExhaustedError(absl::StrCat(
                              "the client has read nothing for ",
                              absl::FormatDuration(stall_timeout_), "; the stream was ended")));
  }
}

void OutputPump::Run() {
  pthread_setname_np(pthread_self(), "quire-output");
  std::vector<Entry*> work;
  while (WaitForWork(&work)) {
    for (Entry* entry : work) Process(entry);
  }
}

bool OutputPump::WaitForWork(std::vector<Entry*>* work) {
  work->clear();
  absl::MutexLock lock(&mutex_);
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return HasWork(); };
  if (num_busy_ == 0) {
    news_.Await(&mutex_, absl::InfiniteFuture(), has_work);
  } else {
    news_.Await(&mutex_, MonotonicNow() + stall_timeout_ / 4, has_work);
    const absl::Time now = MonotonicNow();
    if (now >= next_stall_check_) EndStalled(now);
  }
  if (stopping_ && queue_.empty()) return false;
  for (RequestId id : std::exchange(queue_, {})) {
    const auto it = entries_.find(id);
    if (it == entries_.end()) continue;
    Entry* entry = it->second.get();
    entry->queued = false;
    // Queued again while it was being processed, and a part went out: its writer comes first.
    if (entry->busy) continue;
    entry->pending = false;
    work->push_back(entry);
  }
  return true;
}

void OutputPump::Process(Entry* entry) {
  absl::Status forced_end;
  {
    absl::MutexLock lock(&mutex_);
    forced_end = entry->forced_end;
  }
  RunningRequest& request = entry->request;
  if (!forced_end.ok() && request.writer != nullptr) EndEarly(entry, forced_end);
  // The tokens that are decoded go out before more are read: the server holds little beside the
  // engine's queue.
  const bool may_read = request.writer == nullptr || !request.builder->HasPart();
  const bool all_read = entry->num_open == 0 || (may_read && ReadEvents(entry));
  if (request.writer != nullptr) {
    WriteNext(entry, all_read);
  } else if (entry->num_open > 0 && !all_read) {
    absl::MutexLock lock(&mutex_);
    MarkPending(entry);
  }
  if (request.writer == nullptr && entry->num_open == 0) Erase(entry);
}

bool OutputPump::ReadEvents(Entry* entry) {
  for (int64_t cost = 0; cost < kMostAtOnce;) {
    SequenceEvent event;
    if (!entry->request.stream->Read(&event)) return true;
    cost += CostOf(event);
    TakeEvent(entry, std::move(event));
  }
  return false;
}

void OutputPump::TakeEvent(Entry* entry, SequenceEvent event) {
  RunningRequest& request = entry->request;
  const SequenceKey key = event.key;
  const RequestTimes* times = nullptr;
  if (event.kind == SequenceEvent::Kind::kFinished) {
    --entry->num_open;
    times = &request.stream->times(key.index);
    if (entry->failure.ok() && event.reason == FinishReason::kError) {
      const absl::Status& status = request.stream->status(key.index);
      entry->failure = status.ok() ? absl::InternalError("the engine failed this request")
                                   : WithRetryPushback(status);
    }
  }
  if (request.trace != nullptr) request.trace->Note(event, times);
  if (request.writer == nullptr) return;  // ended early: nobody listens
  if (!request.builder->Add(std::move(event), times)) return;
  if (request.trace != nullptr) request.trace->continuations[key.index].has_stop_string = true;
  canceller_->StopSequence(key);
}

void OutputPump::WriteNext(Entry* entry, bool all_read) {
  RunningRequest& request = entry->request;
  AnswerPart part;
  const bool has_part = request.builder->Next(&part);
  const bool ended = entry->num_open == 0 && !request.builder->HasPart();
  if (!has_part && ended) {
    End(entry, entry->failure);
    return;
  }
  const absl::Status kept = has_part ? Keep(entry, part) : absl::OkStatus();
  if (!kept.ok()) {
    EndEarly(entry, kept);
    if (entry->num_open == 0 || all_read) return;
    absl::MutexLock lock(&mutex_);
    MarkPending(entry);  // the rest is read for its trace
    return;
  }
  if (has_part) NotePart(part, &request.access);
  // When the writer is ready after the last part there is no entry any more.
  const auto on_ready = [this, id = request.stream->request_id()] { OnWriterReady(id); };
  if (ended && entry->failure.ok()) {
    request.lease = {};  // before the client can know that its id is free
    request.writer->Write(std::move(part), on_ready);
    End(entry, absl::OkStatus());
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    entry->pending |= !all_read || ended || request.builder->HasPart();
    if (has_part) {
      entry->busy = true;
      entry->busy_since = MonotonicNow();
      if (++num_busy_ == 1) next_stall_check_ = entry->busy_since + stall_timeout_;
    }
    QueueIfReady(entry);
  }
  if (has_part) request.writer->Write(std::move(part), on_ready);
}

// Whether there is room for more of an answer that its writer keeps.
absl::Status OutputPump::Keep(Entry* entry, const AnswerPart& part) {
  if (entry->kept == nullptr) return absl::OkStatus();
  const RunningRequest& request = entry->request;
  if (!request.answer_size->Add(request.writer->AnswerBytes(part))) return AnswerTooLarge();
  if (entry->kept->Add(part)) return absl::OkStatus();
  return WithRetryPushback(absl::ResourceExhaustedError(
      "answers that are kept until they end have too many bytes; ask for a stream, for fewer "
      "logprobs, or for less at a time"));
}

void OutputPump::End(Entry* entry, const absl::Status& status) {
  RunningRequest& request = entry->request;
  if (request.trace != nullptr) request.trace->End(status.code(), MonotonicNow());
  request.lease = {};  // before the client can know that its id is free
  const std::unique_ptr<AnswerWriter> writer = std::move(request.writer);
  writer->End(status, std::move(request.access));
}

// While the engine still has the request. Later events are of use only for a recorded trace.
void OutputPump::EndEarly(Entry* entry, const absl::Status& status) {
  RunningRequest& request = entry->request;
  canceller_->Cancel(request.stream->request_id());
  End(entry, status);
  request.builder.reset();
  if (request.trace != nullptr) return;
  request.stream->Abandon();
  entry->num_open = 0;
}

void OutputPump::Erase(Entry* entry) {
  entry->request.trace.reset();  // goes to its exporter, without our lock
  absl::MutexLock lock(&mutex_);
  entries_.erase(entry->request.stream->request_id());
}

}  // namespace quire
