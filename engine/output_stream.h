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

// Told by the engine's thread that a stream has events. At most once until the reader has found the
// stream empty (Read returned false for it), so a listener's queue is bounded by its streams.
class OutputListener {
 public:
  virtual ~OutputListener() = default;
  virtual void OnOutput(OutputStream* stream) = 0;
};

// Wall-clock times of one request, engine side; complete once all continuations have finished.
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

  RequestId request_id() const { return request_; }
  int num_continuations() const { return static_cast<int>(rings_.size()); }

  // Reader: takes the next event of any continuation (in order within one). False when empty; then
  // the listener will be told of the next one.
  bool Read(SequenceEvent* event);

  // Reader, after the last kFinished: why the request ended abnormally (device failure), else OK.
  const absl::Status& status() const { return status_; }
  const RequestTimes& times() const { return times_; }

 private:
  friend class OutputWriter;  // the engine's side, engine/output_writer.h
  struct Ring;

  RequestId request_;
  OutputListener* listener_;
  std::vector<std::unique_ptr<Ring>> rings_;
  int next_ring_ = 0;                  // reader: round robin
  std::atomic<bool> notified_{false};  // the listener has been told and has not seen empty since
  absl::Status status_;                // written before the last kFinished is published
  RequestTimes times_;
};

}  // namespace quire
