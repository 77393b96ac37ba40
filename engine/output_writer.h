// OutputWriter: the engine's side of one request's OutputStream. Engine thread only.
#pragma once

#include <memory>
#include <utility>

#include "engine/inbox.h"
#include "engine/output_stream.h"

namespace quire {

class OutputWriter {
 public:
  // The stream posts a ResumeMessage to `inbox` when its reader has made room in a full ring.
  OutputWriter(std::shared_ptr<OutputStream> stream, absl::Time submitted,
               const std::shared_ptr<Inbox>& inbox);

  // Appends an event to its continuation's ring; never blocks. Returns true when the ring is so
  // full that the sequence must be paused (until a ResumeMessage comes).
  bool Write(SequenceEvent event, absl::Time now);

  // Why continuation `index` fails; before its kFinished is written.
  void SetFailure(int index, absl::Status status);

  // Ends every continuation that has not finished, with this status.
  void Fail(const absl::Status& status, absl::Time now);

  // Tells the listener, if it does not know yet.
  void Notify();

  bool finished() const { return num_unfinished_ == 0; }
  const OutputStream& stream() const { return *stream_; }

 private:
  std::shared_ptr<OutputStream> stream_;
  int num_unfinished_;
};

}  // namespace quire
