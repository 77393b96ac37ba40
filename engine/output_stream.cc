#include "engine/output_stream.h"

#include <array>
#include <utility>

#include "engine/output_writer.h"
#include "kernels/base/check.h"

namespace quire {

namespace {

// A ring with no more free places than this is full: what a sequence can still emit before a pause
// takes effect (two steps in flight, each a token and a chunk's prompt logprobs) and its end must
// fit.
constexpr uint64_t kReserve = 8;

// An event as it lies in a ring, whose place gives its key: nearly all are a token and nothing
// else, and there is a ring for every sequence that waits, runs or is not read.
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

}  // namespace

// One writer, one reader; `head` and `tail` count events since the beginning.
struct OutputStream::Ring {
  std::array<PackedEvent, kCapacity> events;
  std::atomic<uint64_t> head{0};  // next to read; reader writes
  std::atomic<uint64_t> tail{0};  // next to write; writer writes
  std::atomic<bool> paused{false};
  std::shared_ptr<Inbox> inbox;  // set before the reader sees the stream's first event
  bool finished = false;         // writer
  absl::Status status;           // written before kFinished is published
  RequestTimes times;            // likewise
};

OutputStream::OutputStream(RequestId request, int num_continuations, OutputListener* listener)
    : request_(request), listener_(listener) {
  CHECK_GE(num_continuations, 1);
  for (int i = 0; i < num_continuations; ++i) rings_.push_back(std::make_unique<Ring>());
}

OutputStream::~OutputStream() = default;

bool OutputStream::ReadOne(SequenceEvent* event) {
  for (size_t tried = 0; tried < rings_.size(); ++tried) {
    const int index = next_ring_;
    next_ring_ = (next_ring_ + 1) % static_cast<int>(rings_.size());
    Ring& ring = *rings_[index];
    const uint64_t head = ring.head.load(std::memory_order_relaxed);
    if (head == ring.tail.load(std::memory_order_acquire)) continue;
    *event = ring.events[head % kCapacity].Take({request_, index});
    ring.head.store(head + 1, std::memory_order_seq_cst);
    const uint64_t used = ring.tail.load(std::memory_order_relaxed) - (head + 1);
    if (used <= kCapacity / 2 && ring.paused.load(std::memory_order_seq_cst) &&
        ring.paused.exchange(false)) {
      ring.inbox->Post(ResumeMessage{SequenceKey{request_, index}});
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

const RequestTimes& OutputStream::times(int index) const { return rings_[index]->times; }
const absl::Status& OutputStream::status(int index) const { return rings_[index]->status; }

OutputWriter::OutputWriter(std::shared_ptr<OutputStream> stream, absl::Time submitted,
                           const std::shared_ptr<Inbox>& inbox)
    : stream_(std::move(stream)), num_unfinished_(stream_->num_continuations()) {
  for (auto& ring : stream_->rings_) {
    ring->inbox = inbox;
    ring->times.submitted = submitted;
  }
}

bool OutputWriter::Write(SequenceEvent event, absl::Time now) {
  OutputStream::Ring& ring = *stream_->rings_[event.key.index];
  CHECK(!ring.finished) << "event after the end of continuation " << event.key.index;
  switch (event.kind) {
    case SequenceEvent::Kind::kStarted:
      ring.times.first_scheduled = now;
      break;
    case SequenceEvent::Kind::kToken:
      if (ring.times.first_token == absl::Time()) ring.times.first_token = now;
      break;
    case SequenceEvent::Kind::kPromptLogprobs:
      break;
    case SequenceEvent::Kind::kFinished:
      ring.times.finished = now;
      ring.finished = true;
      --num_unfinished_;
      break;
  }
  const uint64_t tail = ring.tail.load(std::memory_order_relaxed);
  CHECK_LT(tail - ring.head.load(std::memory_order_acquire), uint64_t{OutputStream::kCapacity})
      << "output ring overflow: a sequence ran on while it was paused";
  ring.events[tail % OutputStream::kCapacity] = PackedEvent(std::move(event));
  ring.tail.store(tail + 1, std::memory_order_seq_cst);
  if (ring.finished) return false;
  const uint64_t used = tail + 1 - ring.head.load(std::memory_order_seq_cst);
  if (used + kReserve < uint64_t{OutputStream::kCapacity}) return false;
  ring.paused.store(true, std::memory_order_seq_cst);
  // The reader may have emptied the ring before it could see the flag; then nobody would resume it.
  const uint64_t head = ring.head.load(std::memory_order_seq_cst);
  if (tail + 1 - head <= OutputStream::kCapacity / 2 && ring.paused.exchange(false)) return false;
  return true;
}

void OutputWriter::SetFailure(int index, absl::Status status) {
  stream_->rings_[index]->status = std::move(status);
}

void OutputWriter::Fail(const absl::Status& status, absl::Time now) {
  for (int i = 0; i < stream_->num_continuations(); ++i) {
    OutputStream::Ring& ring = *stream_->rings_[i];
    if (ring.finished) continue;
    ring.status = status;
    SequenceEvent event;
    event.kind = SequenceEvent::Kind::kFinished;
    event.key = {stream_->request_id(), i};
    event.reason = FinishReason::kError;
    Write(std::move(event), now);
  }
}

void OutputWriter::Notify() {
  if (!stream_->notified_.exchange(true, std::memory_order_seq_cst)) {
    stream_->listener_->OnOutput(stream_);
  }
}

}  // namespace quire
