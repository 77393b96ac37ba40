// Scheduler: decides how many tokens each sequence runs in the next step. Owns all sequences and,
// through BlockManager, their blocks; touches no device. There are no phases: prefill, chunk,
// decode and resumed sequences are all {start, num_new} (the regions of a sequence:
// scheduler/sequence.h). Progress: the best-ranked running sequence of the flow that is furthest
// behind may take every other's blocks, and Add refuses requests that do not fit into the whole
// pool. So one sequence always runs on, ends, and leaves its place to the next. Only the engine
// thread uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kvcache/block_manager.h"
#include "scheduler/fair_queue.h"
#include "scheduler/queue_bounds.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_output.h"
#include "scheduler/sequence.h"
#include "scheduler/snapshot_plan.h"

namespace quire {

struct SchedulerConfig {
  int64_t max_num_seqs = 64;              // sequences that run at once
  int64_t max_num_batched_tokens = 2048;  // tokens of one step; at least max_num_seqs
  // While the prompts in progress do not fit into one step, at most this many are in progress.
  int64_t max_num_partial_prefills = 4;
  // Steps in which a flow may be kept from rows while another has too many (fair_queue.h).
  int64_t max_num_passed = 16;
  int64_t max_model_len = 4096;             // prompt and generated tokens of one sequence
  int64_t max_num_queued_reqs = 4096;       // bound of the waiting queue, each continuation counted
  int64_t max_num_queued_tokens = 1 << 24;  // and in their prompt tokens (queue_bounds.h)
  int64_t snapshot_interval = 1024;         // tokens; SnapshotPolicy::interval
};

struct SchedulerStats {
  int64_t num_waiting = 0;         // sequences, preempted ones included
  int64_t num_waiting_tokens = 0;  // their prompt tokens
  int64_t num_running = 0;         // sequences with a row
  int64_t num_paused = 0;
  int64_t num_preemptions = 0;  // since start
  int64_t num_flows = 0;        // flows that have unfinished sequences or are remembered
  BlockStats blocks;
};

class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, const BlockManagerConfig& blocks);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Called for every sequence that leaves the queue, or comes back into it after it was preempted.
  void SetQueueObserver(std::function<void(const QueueChange&)> observer) {
    queue_observer_ = std::move(observer);
  }

  // Whether the queue takes a request that comes now. INVALID_ARGUMENT: it can never fit (says
  // which limit); RESOURCE_EXHAUSTED: the waiting queue, or the flow's share of it, is full.
  absl::Status Check(const Request& request) const;

  // Takes over a request; INVALID_ARGUMENT as above. It does not check the queue's bounds again: a
  // request for which there was room (by Check, or by the engine's own account of it) is served,
  // even if preempted sequences have taken the room meanwhile.
  absl::Status Add(const std::shared_ptr<const Request>& request);

  // Ends a request (all continuations) or one continuation; effective with the next Schedule. Its
  // blocks are free at the latest when the step that is running now has been committed.
  // `reason` goes into the kFinished events. Unknown ids are ignored (it may have just finished).
  void Cancel(RequestId request, FinishReason reason);
  void CancelSequence(const SequenceKey& key, FinishReason reason);

  // A paused sequence keeps its blocks but is not scheduled (its reader is slow).
  void SetPaused(const SequenceKey& key, bool paused);

  // Decides the next step; allocates blocks, attaches prefix hits, preempts (by recompute, paused
  // sequences first, then the worst-ranked of the flow most over its share) when blocks run out.
  // May be called again before the last step's Commit (lookahead of one). Empty when nothing can
  // run, at least until the steps in flight have been committed.
  SchedulerOutput Schedule();

  // Makes the results of a step true: progress, stop conditions, publishing of full blocks, release
  // of finished sequences. Steps are committed in the order they were scheduled.
  void Commit(StepResult result);

  // The events since the last call, in order.
  std::vector<SequenceEvent> TakeEvents();

  bool HasUnfinished() const;  // any request waiting, running or in flight
  SchedulerStats stats() const;
  const FairQueue& fairness() const { return fair_; }
  const QueueBounds& queue() const { return queue_; }
  int64_t FlushPrefixCache() { return blocks_.FlushPrefixCache(); }
  // Listens to the prefix cache, as in BlockManager.
  void SetKvEventListener(KvEventListener* listener) { blocks_.SetEventListener(listener); }
  void ForEachCachedBlock(const std::function<void(const CachedBlock&)>& visit) const {
    blocks_.ForEachCachedBlock(visit);
  }
  void CheckInvariants() const;

 private:
  struct RequestState {
    std::vector<std::unique_ptr<Sequence>> sequences;  // [n]; null once gone
    int64_t num_left = 0;
    bool prompt_computed = false;  // by the first continuation, so that the others can attach it
  };

  // A step that Schedule handed out and Commit expects back.
  struct StepInFlight {
    struct Entry {
      Sequence* sequence;
      uint64_t epoch;
      int64_t start;
      int64_t num_new;
      int32_t num_samples;
      int32_t num_snapshots;  // its part of `snapshots`
    };
    struct Snapshot {
      int64_t boundary;  // after this many tokens of the sequence
      StateSlot slot;
    };
    uint64_t step;
    std::vector<Entry> entries;
    std::vector<Snapshot> snapshots;  // in the order of the entries
  };

  // scheduler.cc: the life of a sequence.
  absl::Status CheckFits(const Request& request) const;
  Sequence* Find(const SequenceKey& key);
  SequenceEvent& Emit(SequenceEvent::Kind kind, const Sequence& sequence);
  void Preempt(Sequence* sequence);
  void Finish(Sequence* sequence, FinishReason reason, TokenId matched_token);
  void FinishWithError(Sequence* sequence, absl::Status error, bool is_broken);
  void StopRunning(Sequence* sequence);
  void Settle(Sequence* sequence);
  void Enqueue(Sequence* sequence);
  void Dequeue(Sequence* sequence);
  void Observe(const Sequence& sequence, bool enters);
  void Destroy(Sequence* sequence);

  // schedule.cc: deciding a step.
  void FetchRunning() const;
  int64_t PlanSingleTokens();
  void PlanChunks(int64_t budget);
  bool Plan(Sequence* sequence, int64_t num_tokens);
  bool MayPreempt(const Sequence& requester, const Sequence& victim) const;
  std::vector<Sequence*> WorstFirst() const;
  bool PreemptFor(const Sequence& requester, int64_t num_missing_blocks);
  void AdmitWaiting();
  bool AdmitClaims();
  void AdmitInTurn();
  void CountPassed();
  Sequence* NextToAdmit();
  bool HasWorkEnough(const Sequence& next) const;
  Sequence* NextOfFlow(const FlowState& flow);
  bool TryAdmit(Sequence* sequence);
  int64_t NumBlocksMissingToAdmit(Sequence* sequence);
  int64_t MaxBlocks(int64_t num_tokens) const;
  int64_t MaxBlocksSoon(const Sequence& sequence) const;
  int64_t NumReservedBlocks() const;
  SchedulerOutput HandOut();
  ScheduledSequence HandOutSequence(Sequence* sequence, StepInFlight* step);
  int32_t TakeSnapshots(Sequence* sequence, ScheduledSequence* scheduled, StepInFlight* step);

  // commit.cc: making a step true.
  void Accept(const StepInFlight::Entry& entry, SequenceResult result,
              absl::Span<const StepInFlight::Snapshot> snapshots);
  void DropSnapshots(absl::Span<const StepInFlight::Snapshot> snapshots);
  void ReportPromptLogprobs(const StepInFlight::Entry& entry, SequenceResult* result);

  const SchedulerConfig config_;
  const int32_t block_size_;
  const bool prefix_caching_;
  const bool takes_snapshots_;
  const SnapshotPolicy snapshot_policy_;
  BlockManager blocks_;
  absl::flat_hash_map<RequestId, RequestState> requests_;
  FairQueue fair_;
  QueueBounds queue_;
  std::function<void(const QueueChange&)> queue_observer_;  // or null
  std::vector<Sequence*> running_;   // best rank first, as if all belonged to one flow
  std::vector<Sequence*> draining_;  // blocks that come back with the steps in flight
  std::vector<int32_t> free_rows_;
  std::deque<StepInFlight> in_flight_;  // oldest first; at most two
  std::vector<SequenceEvent> events_;
  int64_t num_preemptions_ = 0;
  uint64_t next_arrival_ = 0;
  uint64_t next_step_ = 0;
};

}  // namespace quire
