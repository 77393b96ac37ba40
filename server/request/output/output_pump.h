// OutputPump: the one thread that turns the engine's token events into answers. It owns every
// running request's OutputStream, AnswerBuilder and AnswerWriter, and keeps at most one part under
// way per writer: while a client reads slowly, its events wait in the engine's queue, which pauses
// only that sequence. All that writers keep of answers until their ends has a bound, and so has
// each principal's part of it. The thread sleeps unless a stream has events or a writer is ready
// again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/output_stream.h"
#include "kernels/base/clock.h"
#include "server/request/answer_size.h"
#include "server/request/limits.h"
#include "server/request/output/answer_builder.h"
#include "server/request/output/answer_writer.h"
#include "server/request/request_registry.h"
#include "server/trace/trace_exporter.h"
#include "server/wire/transport/byte_budget.h"

namespace quire {

// Lets the output side end sequences in the engine. Any thread.
class SequenceCanceller {
 public:
  virtual ~SequenceCanceller() = default;
  virtual void Cancel(RequestId request) = 0;
  virtual void StopSequence(const SequenceKey& key) = 0;  // a stop string was found
};

// One request that the engine has accepted.
struct RunningRequest {
  std::shared_ptr<OutputStream> stream;
  std::unique_ptr<AnswerBuilder> builder;
  std::unique_ptr<AnswerWriter> writer;
  AccessEntry access;
  RequestRegistry::Lease lease;
  RecordedTrace trace = {};  // null: not recorded
  // The size of the whole answer, if its writer keeps the answer; shared by the requests of a call.
  std::shared_ptr<AnswerSize> answer_size = std::make_shared<AnswerSize>();
};

class OutputPump : public OutputListener {
 public:
  // A writer that stays busy for longer than `stall_timeout` is ended with RESOURCE_EXHAUSTED, and
  // its request is cancelled. The same happens to a writer that keeps its answer, when all kept
  // answers take `max_kept_bytes`, or those of its principal take the principal's share.
  // `canceller` must outlive every request.
  OutputPump(SequenceCanceller* canceller, absl::Duration stall_timeout,
             int64_t max_kept_bytes = kMaxKeptAnswerBytes);
  // All writers must have been ended and the engine must be gone.
  ~OutputPump() override;

  // Takes over a request; its writer will be ended exactly once. Any thread.
  void Add(RunningRequest request);

  // Nobody listens to this request any more: its writer is ended, and later events are dropped. The
  // caller must cancel the request. Any thread.
  void Abandon(RequestId id);

  // Ends every writer with `status` and cancels the requests. Any thread.
  void EndAll(absl::Status status);

  // Engine's thread.
  void OnOutput(const std::shared_ptr<OutputStream>& stream) override;

 private:
  // The parts that a writer keeps of an answer, on its principal's account.
  class KeptAnswer {
   public:
    KeptAnswer(ByteBudget* budget, std::string principal)
        : account_(budget, std::move(principal)) {}
    ~KeptAnswer() { account_.GiveBack(num_bytes_); }

    // False: there is no room for it.
    bool Add(const AnswerPart& part);

   private:
    ByteBudget::Account account_;
    int64_t num_bytes_ = 0;
  };

  struct Entry {
    RunningRequest request;            // its writer is null once ended
    int num_open;                      // continuations whose end has not been read
    absl::Status failure;              // the status of the first continuation that failed
    std::unique_ptr<KeptAnswer> kept;  // null unless its writer keeps the answer
    // Guarded by mutex_.
    bool pending = true;  // there may be something to read or to send
    bool queued = false;  // is in queue_
    bool busy = false;    // its writer has a part under way
    absl::Time busy_since;
    absl::Status forced_end;  // not OK: end the writer with this, whatever it is doing
  };

  void Run();
  bool WaitForWork(std::vector<Entry*>* work);  // false when it is time to stop
  void OnWriterReady(RequestId id);             // any thread

  // Pump thread.
  void Process(Entry* entry);
  bool ReadEvents(Entry* entry);
  void TakeEvent(Entry* entry, SequenceEvent event);
  void EndEarly(Entry* entry, const absl::Status& status);
  void WriteNext(Entry* entry, bool all_read);
  static absl::Status Keep(Entry* entry, const AnswerPart& part);
  static void End(Entry* entry, const absl::Status& status);
  void Erase(Entry* entry);

  void MarkPending(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void QueueIfReady(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForceEnd(Entry* entry, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndStalled(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); }

  SequenceCanceller* const canceller_;
  const absl::Duration stall_timeout_;
  ByteBudget kept_answers_;

  absl::Mutex mutex_;
  MonotonicCondVar news_;  // for the pump: HasWork
  absl::flat_hash_map<RequestId, std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<RequestId> queue_ ABSL_GUARDED_BY(mutex_);  // entries to process
  int num_busy_ ABSL_GUARDED_BY(mutex_) = 0;              // entries that are busy
  absl::Time next_stall_check_ ABSL_GUARDED_BY(mutex_);
  absl::Status end_all_ ABSL_GUARDED_BY(mutex_);  // not OK once EndAll was called
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // the last member: it uses all others
};

}  // namespace quire
