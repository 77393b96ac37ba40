// Sequence: one continuation of a request: its tokens, its blocks and how far it has come. Written
// by Scheduler only; engine thread. Its tokens, as half-open regions of positions:
//
//   0            num_computed     num_submitted    num_tokens()      num_expected()
//   |- KV in cache -|- in flight ----|- to submit ----|- sampled, not back -|
//
// With lookahead num_submitted may pass num_tokens(): then the device knows the token and we do
// not. No region says "prefill" or "decode": a step runs some of [num_submitted, num_expected()).
#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "kvcache/block_manager.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_output.h"

namespace quire {

struct FlowState;  // fair_queue.h

enum class SequenceState : uint8_t {
  kWaiting,   // holds nothing
  kRunning,   // holds a row and blocks
  kDraining,  // preempted or finished; holds both until its steps in flight have come back
};

struct Sequence {
  SequenceKey key;
  std::shared_ptr<const Request> request;
  FlowState* flow = nullptr;
  std::unique_ptr<TokenConstraint> constraint;  // null: any token may come
  uint64_t arrival = 0;                         // order of Add
  int64_t max_num_tokens = 0;                   // prompt and generated; ends with kLength there

  SequenceState state = SequenceState::kWaiting;
  bool paused = false;
  bool finished = false;  // its kFinished event is out
  bool started = false;   // its kStarted event is out
  bool is_owed = false;   // was let in by its flow's claim and has no token since (FairQueue)
  uint64_t epoch = 0;     // bumped by preemption and end, so that late results are recognised
  int32_t row = -1;
  int32_t num_preemptions = 0;

  std::vector<TokenId> tokens;  // known tokens, the prompt first; empty until it has had a row
  BlockTable table;
  int64_t num_computed = 0;
  int64_t num_submitted = 0;
  int64_t num_samples_in_flight = 0;
  int64_t num_steps_in_flight = 0;  // of any epoch: while > 0 the blocks may be in use
  int64_t num_cached_tokens = 0;    // attached when it last got its row
  int64_t num_blocks_shown = 0;     // leading blocks that the runner has seen on this row
  int64_t num_prompt_scored = 0;    // prompt tokens whose logprobs are out (the first has none)
  int64_t num_planned = 0;          // tokens of the step being planned
  int64_t num_admitted = 0;         // what it got its row for and has not submitted (FairQueue)

  int64_t num_prompt_tokens() const { return request->prompt.size(); }
  absl::Span<const TokenId> known() const { return tokens.empty() ? request->prompt : tokens; }
  int64_t num_tokens() const { return known().size(); }
  int64_t num_expected() const { return num_tokens() + num_samples_in_flight; }
  int64_t num_to_submit() const { return num_expected() - num_submitted; }
  bool has_row() const { return row >= 0; }

  // Whether a step may run tokens of it: the last token (max_num_tokens) is never an input.
  bool CanRun() const {
    return state == SequenceState::kRunning && !paused && num_to_submit() > 0 &&
           num_expected() < max_num_tokens;
  }

  // Whether logprobs of its prompt are still owed. Only the first continuation reports them.
  bool OwesPromptLogprobs() const {
    return request->sampling.prompt_logprobs >= 0 && key.index == 0 &&
           num_prompt_scored < num_prompt_tokens() - 1;
  }

  // Total order of service within its flow: priority, then arrival, then continuation.
  bool Outranks(const Sequence& other) const {
    return std::tuple(request->priority, arrival, key.index) <
           std::tuple(other.request->priority, other.arrival, other.key.index);
  }
};

struct OutranksLess {
  bool operator()(const Sequence* a, const Sequence* b) const { return a->Outranks(*b); }
};

}  // namespace quire
