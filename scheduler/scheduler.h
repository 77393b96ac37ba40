// Scheduler: decides who runs how many tokens in the next step. Owns all sequences and, through
// BlockManager, their blocks; touches no device. There are no phases: prefill, chunk, decode and
// resumed sequences are all {start, num_new}. Used by the engine thread only.
//
// Tokens of a sequence, as half-open regions of positions:
//   [0, num_computed)             KV is in the cache, results have come back (Commit)
//   [num_computed, num_submitted) handed to the runner, not back yet (Schedule)
//   [num_submitted, num_known)    known tokens still to run: the rest of the prompt, or one sampled
//   token
// With lookahead a decode may be scheduled for a token that only the device knows yet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kvcache/block_manager.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_output.h"

namespace quire {

struct SchedulerConfig {
  int64_t max_num_seqs = 64;              // sequences that run at once
  int64_t max_num_batched_tokens = 2048;  // tokens of one step
  int64_t max_num_partial_prefills = 4;   // prompts in progress at once
  int64_t max_model_len = 4096;           // prompt and generated tokens of one sequence
  int64_t max_waiting_requests = 1024;    // bound of the waiting queue, in requests
  int64_t max_waiting_tokens = 1 << 22;   // and in prompt tokens
};

struct SchedulerStats {
  int64_t num_waiting = 0;
  int64_t num_waiting_tokens = 0;
  int64_t num_running = 0;
  int64_t num_paused = 0;
  int64_t num_preemptions = 0;  // since start
  BlockStats blocks;
};

class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, const BlockManagerConfig& blocks);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Takes over a request. INVALID_ARGUMENT: it can never fit (says which limit);
  // RESOURCE_EXHAUSTED: the waiting queue is full. Nothing already accepted is changed by a
  // refusal.
  absl::Status Add(std::shared_ptr<const Request> request);

  // Ends a request (all continuations) or one continuation; effective with the next Schedule. Its
  // blocks are free at the latest when the step that is running now has been committed.
  // `reason` goes into the kFinished events. Unknown ids are ignored (it may have just finished).
  void Cancel(RequestId request, FinishReason reason);
  void CancelSequence(const SequenceKey& key, FinishReason reason);

  // A paused sequence keeps its blocks but is not scheduled (its reader is slow).
  void SetPaused(const SequenceKey& key, bool paused);

  // Decides the next step; allocates blocks, attaches prefix hits, preempts (by recompute, lowest
  // priority and youngest first) when blocks run out. May be called again before the last step's
  // Commit (lookahead of one). Empty when nothing can run.
  SchedulerOutput Schedule();

  // Makes the results of a step true: progress, stop conditions, publishing of full blocks, release
  // of finished sequences. Steps are committed in the order they were scheduled.
  void Commit(StepResult result);

  // The events since the last call, in order.
  std::vector<SequenceEvent> TakeEvents();

  bool HasUnfinished() const;  // any request waiting, running or in flight
  SchedulerStats stats() const;
  int64_t FlushPrefixCache();
  void CheckInvariants() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
