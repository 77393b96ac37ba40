// OutputStream: what the engine tells about one request, as a bounded queue per continuation with
// one writer (the engine's thread) and one reader. A full queue never blocks the engine: the
// sequence is paused until the reader has made room. A queue takes memory only for its contents,
// so continuations that wait, and those that are read in time, take next to none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/stream_bounds.h"
#include "scheduler/scheduler_output.h"

namespace quire {

class Inbox;
class OutputStream;

// Told by the engine's thread that a stream has events. Not told again before the reader has found
// the stream empty (Read returned false), except that a notice may cross with the reader: one for a
// stream that is already read to its end must be ignored.
class OutputListener {
 public:
  virtual ~OutputListener() = default;
  virtual void OnOutput(const std::shared_ptr<OutputStream>& stream) = 0;
};

// Wall-clock times of one continuation, engine side.
struct RequestTimes {
  absl::Time submitted;
  absl::Time first_scheduled;
  absl::Time first_token;
  absl::Time finished;
};

class OutputStream {
 public:
  // Of a continuation: events, and bytes of their logprobs beyond which it is paused.
  static constexpr int kCapacity = 256;
  static constexpr int64_t kMaxLogprobBytes = 6 << 10;

  OutputStream(RequestId request, int num_continuations, OutputListener* listener,
               StreamBounds::Places places = {});
  ~OutputStream();
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  RequestId request_id() const { return request_; }
  int num_continuations() const { return num_continuations_; }

  // Reader: takes the next event of any continuation (in order within one). False when empty; then
  // the listener will be told of the next one.
  bool Read(SequenceEvent* event);

  // Reader, instead of reading to the end: what still comes is thrown away, and the listener is not
  // told of it. The request is the caller's to cancel.
  void Abandon() { is_abandoned_.store(true, std::memory_order_relaxed); }

  // Reader, after the kFinished of continuation `index`: its times, and why it ended if the request
  // failed (device failure, queue full), else OK.
  const RequestTimes& times(int index) const;
  const absl::Status& status(int index) const;

 private:
  friend class OutputWriter;  // the engine's side, engine/output_writer.h
  struct Chunk;
  struct Queue;

  bool ReadOne(SequenceEvent* event);

  const RequestId request_;
  OutputListener* const listener_;
  const StreamBounds::Places places_;
  std::shared_ptr<Inbox> inbox_;  // set before the reader sees the stream's first event
  const int num_continuations_;
  const std::unique_ptr<Queue[]> queues_;  // [num_continuations]
  int next_queue_ = 0;                     // reader: round robin
  // The listener was told and Read has not returned false since.
  std::atomic<bool> notified_{false};
  std::atomic<bool> is_abandoned_{false};
};

}  // namespace quire
