// OutputWriter: the engine's side of one request's OutputStream. Engine thread only.
#pragma once

#include <memory>
#include <utility>

#include "engine/inbox.h"
#include "engine/output_stream.h"

namespace quire {

class OutputWriter {
 public:
  // The stream posts a ResumeMessage to `inbox` when its reader has made room in a full queue.
  OutputWriter(std::shared_ptr<OutputStream> stream, absl::Time submitted,
               const std::shared_ptr<Inbox>& inbox);

  // Appends an event to its continuation's queue; never blocks. Returns true when the queue is so
  // full that the sequence must be paused (until a ResumeMessage comes).
  bool Write(SequenceEvent event, absl::Time now);

  // Why continuation `index` fails; before its kFinished is written.
  void SetFailure(int index, absl::Status status);

  // Ends every continuation that has not finished, for this reason and with this status.
  void End(FinishReason reason, const absl::Status& status, absl::Time now);
  void Fail(const absl::Status& status, absl::Time now) { End(FinishReason::kError, status, now); }

  // Tells the listener, if it does not know yet.
  void Notify();

  bool finished() const { return num_unfinished_ == 0; }
  const OutputStream& stream() const { return *stream_; }

 private:
  void Note(const SequenceEvent& event, absl::Time now);

  std::shared_ptr<OutputStream> stream_;
  int num_unfinished_;
};

}  // namespace quire
