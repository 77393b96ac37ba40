// OutputStream: what the engine tells about one request, as a fixed ring per continuation with one
// writer (the engine's thread) and one reader. A full ring never blocks the engine: the sequence is
// paused until the reader has made room.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/scheduler_output.h"

namespace quire {

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
  static constexpr int kCapacity = 256;  // events per continuation

  OutputStream(RequestId request, int num_continuations, OutputListener* listener);
  ~OutputStream();
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  RequestId request_id() const { return request_; }
  int num_continuations() const { return static_cast<int>(rings_.size()); }

  // Reader: takes the next event of any continuation (in order within one). False when empty; then
  // the listener will be told of the next one.
  bool Read(SequenceEvent* event);

  // Reader, after the kFinished of continuation `index`: its times, and why it ended if the request
  // failed (device failure, queue full), else OK.
  const RequestTimes& times(int index) const;
  const absl::Status& status(int index) const;

 private:
  friend class OutputWriter;  // the engine's side, engine/output_writer.h
  struct Ring;

  bool ReadOne(SequenceEvent* event);

  RequestId request_;
  OutputListener* listener_;
  std::vector<std::unique_ptr<Ring>> rings_;
  int next_ring_ = 0;  // reader: round robin
  std::atomic<bool> notified_{
      false};  // the listener was told and Read has not returned false since
};

}  // namespace quire
