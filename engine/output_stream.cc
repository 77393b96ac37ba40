#include "engine/output_stream.h"

#include <array>
#include <utility>

#include "engine/output_writer.h"
#include "kernels/base/check.h"

namespace quire {

namespace {

// A queue with no more free places than this is full: what a sequence can still emit before a pause
// takes effect (two steps in flight, each a token and a chunk's prompt logprobs) and its end must
// fit.
constexpr uint64_t kReserve = 8;

// An event as it lies in a queue, whose place gives its key: nearly all are a token and nothing
// else.
class PackedEvent {
 public:
  PackedEvent() = default;
  explicit PackedEvent(SequenceEvent event) : token_(event.token) {
    const bool is_bare_token =
        event.kind == SequenceEvent::Kind::kToken && event.logprobs == nullptr;
    if (!is_bare_token) whole_ = std::make_unique<SequenceEvent>(std::move(event));
  }
  SequenceEvent Take(const SequenceKey& key) {
    if (whole_ != nullptr) return std::move(*std::exchange(whole_, nullptr));
    SequenceEvent event;
    event.kind = SequenceEvent::Kind::kToken;
    event.key = key;
    event.token = token_;
    return event;
  }

 private:
  TokenId token_ = -1;
  std::unique_ptr<SequenceEvent> whole_;  // null for a token and nothing else
};

// What an event takes beside its place.
int64_t LogprobBytes(const SequenceEvent& event) {
  if (event.logprobs == nullptr) return 0;
  const size_t num_bytes = sizeof(SequenceEvent) + sizeof(TokenLogprobs) +
                           event.logprobs->top.size() * sizeof(event.logprobs->top[0]);
  return static_cast<int64_t>(num_bytes);
}

}  // namespace

// Events that lie together; the reader frees them when it goes on to the next ones.
struct OutputStream::Chunk {
  static constexpr uint64_t kNumEvents = 15;
  std::array<PackedEvent, kNumEvents> events;
  std::unique_ptr<Chunk> next;
};

// One writer, one reader; `head` and `tail` count events since the beginning. The writer makes a
// chunk before it publishes, with `tail`, the first event that lies in it.
struct OutputStream::Queue {
  std::unique_ptr<Chunk> first;   // reader, once there is an event
  Chunk* last = nullptr;          // writer
  std::atomic<uint64_t> head{0};  // next to read; reader writes
  std::atomic<uint64_t> tail{0};  // next to write; writer writes
  std::atomic<int64_t> num_logprob_bytes{0};
  std::atomic<bool> paused{false};
  bool finished = false;  // writer
  absl::Status status;    // written before kFinished is published
  RequestTimes times;     // likewise

  ~Queue() {
    while (first != nullptr) first = std::exchange(first->next, nullptr);  // not one in the other
  }

  PackedEvent& PlaceToWrite(uint64_t at) {
    const uint64_t place = at % Chunk::kNumEvents;
    if (place == 0) {
      auto chunk = std::make_unique<Chunk>();
      Chunk* const before = std::exchange(last, chunk.get());
      (before == nullptr ? first : before->next) = std::move(chunk);
    }
    return last->events[place];
  }
  PackedEvent& PlaceToRead(uint64_t at) {
    const uint64_t place = at % Chunk::kNumEvents;
    if (place == 0 && at > 0) first = std::exchange(first->next, nullptr);
    return first->events[place];
  }
  // Whether the reader has read enough that a sequence may go on.
  bool HasRoom(uint64_t num_used) const {
    return num_used <= kCapacity / 2 &&
           num_logprob_bytes.load(std::memory_order_seq_cst) <= kMaxLogprobBytes / 2;
  }
};

OutputStream::OutputStream(RequestId request, int num_continuations, OutputListener* listener,
                           StreamBounds::Places places)
    : request_(request),
      listener_(listener),
      places_(std::move(places)),
      num_continuations_(num_continuations),
      queues_(std::make_unique<Queue[]>(static_cast<size_t>(num_continuations))) {
  CHECK_GE(num_continuations, 1);
}

OutputStream::~OutputStream() = default;

bool OutputStream::ReadOne(SequenceEvent* event) {
  for (int tried = 0; tried < num_continuations_; ++tried) {
    const int index = next_queue_;
    next_queue_ = (next_queue_ + 1) % num_continuations_;
    Queue& queue = queues_[index];
    const uint64_t head = queue.head.load(std::memory_order_relaxed);
    if (head == queue.tail.load(std::memory_order_acquire)) continue;
    *event = queue.PlaceToRead(head).Take({request_, index});
    queue.num_logprob_bytes.fetch_sub(LogprobBytes(*event), std::memory_order_seq_cst);
    queue.head.store(head + 1, std::memory_order_seq_cst);
    const uint64_t num_used = queue.tail.load(std::memory_order_relaxed) - (head + 1);
    if (queue.HasRoom(num_used) && queue.paused.load(std::memory_order_seq_cst) &&
        queue.paused.exchange(false)) {
      inbox_->Post(ResumeMessage{SequenceKey{request_, index}});
    }
    return true;
  }
  return false;
}

bool OutputStream::Read(SequenceEvent* event) {
  if (ReadOne(event)) return true;
  // Say that the listener wants to be told, then look again: an event written in between would
  // otherwise be missed by both sides.
  notified_.store(false, std::memory_order_seq_cst);
  if (!ReadOne(event)) return false;
  notified_.store(true, std::memory_order_seq_cst);
  return true;
}

const RequestTimes& OutputStream::times(int index) const { return queues_[index].times; }
const absl::Status& OutputStream::status(int index) const { return queues_[index].status; }

OutputWriter::OutputWriter(std::shared_ptr<OutputStream> stream, absl::Time submitted,
                           const std::shared_ptr<Inbox>& inbox)
    : stream_(std::move(stream)), num_unfinished_(stream_->num_continuations()) {
  stream_->inbox_ = inbox;
  for (int i = 0; i < num_unfinished_; ++i) stream_->queues_[i].times.submitted = submitted;
}

void OutputWriter::Note(const SequenceEvent& event, absl::Time now) {
  OutputStream::Queue& queue = stream_->queues_[event.key.index];
  CHECK(!queue.finished) << "event after the end of continuation " << event.key.index;
  switch (event.kind) {
    case SequenceEvent::Kind::kStarted:
      queue.times.first_scheduled = now;
      break;
    case SequenceEvent::Kind::kToken:
      if (queue.times.first_token == absl::Time()) queue.times.first_token = now;
      break;
    case SequenceEvent::Kind::kPromptLogprobs:
      break;
    case SequenceEvent::Kind::kFinished:
      queue.times.finished = now;
      queue.finished = true;
      --num_unfinished_;
      break;
  }
}

bool OutputWriter::Write(SequenceEvent event, absl::Time now) {
  Note(event, now);
  if (stream_->is_abandoned_.load(std::memory_order_relaxed)) return false;
  OutputStream::Queue& queue = stream_->queues_[event.key.index];
  constexpr uint64_t kCapacity{OutputStream::kCapacity};
  const uint64_t tail = queue.tail.load(std::memory_order_relaxed);
  CHECK_LT(tail - queue.head.load(std::memory_order_acquire), kCapacity)
      << "output queue overflow: a sequence ran on while it was paused";
  queue.num_logprob_bytes.fetch_add(LogprobBytes(event), std::memory_order_seq_cst);
  queue.PlaceToWrite(tail) = PackedEvent(std::move(event));
  queue.tail.store(tail + 1, std::memory_order_seq_cst);
  if (queue.finished) return false;
  const uint64_t num_used = tail + 1 - queue.head.load(std::memory_order_seq_cst);
  if (num_used + kReserve < kCapacity &&
      queue.num_logprob_bytes.load(std::memory_order_relaxed) < OutputStream::kMaxLogprobBytes) {
    return false;
  }
  queue.paused.store(true, std::memory_order_seq_cst);
  // The reader may have emptied the queue before it could see the flag; then nobody would resume
  // the sequence.
  const uint64_t head = queue.head.load(std::memory_order_seq_cst);
  if (queue.HasRoom(tail + 1 - head) && queue.paused.exchange(false)) return false;
  return true;
}

void OutputWriter::SetFailure(int index, absl::Status status) {
  stream_->queues_[index].status = std::move(status);
}

void OutputWriter::End(FinishReason reason, const absl::Status& status, absl::Time now) {
  for (int i = 0; i < stream_->num_continuations(); ++i) {
    OutputStream::Queue& queue = stream_->queues_[i];
    if (queue.finished) continue;
    queue.status = status;
    SequenceEvent event;
    event.kind = SequenceEvent::Kind::kFinished;
    event.key = {stream_->request_id(), i};
    event.reason = reason;
    Write(std::move(event), now);
  }
}

void OutputWriter::Notify() {
  if (stream_->is_abandoned_.load(std::memory_order_relaxed)) return;
  if (!stream_->notified_.exchange(true, std::memory_order_seq_cst)) {
    stream_->listener_->OnOutput(stream_);
  }
}

}  // namespace quire
