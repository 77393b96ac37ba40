// The values that go between deciding (Scheduler), doing (ModelRunner) and making true (Commit),
// and the events that come out. Plain data; engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "kernels/gated_delta.h"
#include "kernels/sampling.h"
#include "scheduler/request.h"

namespace quire {

// Identifies one continuation of a request; stable through preemption.
struct SequenceKey {
  RequestId request = 0;
  int32_t index = 0;  // 0 .. n-1
  friend bool operator==(const SequenceKey&, const SequenceKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SequenceKey& key) {
    return H::combine(std::move(h), key.request, key.index);
  }
};

// Run tokens [start, start + num_new) of a sequence. The spans point into the scheduler's state and
// are valid until its next call.
struct ScheduledSequence {
  SequenceKey key;
  uint64_t epoch;   // changes with preemption and the end; results of older epochs are dropped
  int32_t row;      // 0 .. max_num_seqs-1, held while the sequence runs
  bool row_is_new;  // first step of this row for this epoch: the runner resets the row's state
  int64_t start;
  int64_t num_new;       // >= 1
  int32_t num_samples;   // new tokens that the last of these yields: 1, or 0 inside a prompt
  bool input_on_device;  // the (single) input is still on the device: use the row's last token
  bool wants_prompt_logprobs;  // of the prompt tokens start+1 .. start+num_new
  int64_t num_prompt_tokens;
  absl::Span<const TokenId> tokens;  // all known tokens, from position 0
  // Known plus submitted generated tokens before this step: this step's sample has this index.
  int64_t num_generated;
  absl::InlinedVector<absl::Span<const BlockId>, 2> block_tables;  // per layer group
  int64_t first_new_block;         // blocks from this index on were added since the row's last step
  StateSlot state_in = kNoState;   // the step begins from it; kNoState: from zeros
  StateSlot state_out = kNoState;  // the step leaves its state here; kNoState: the model keeps none
  absl::InlinedVector<StateSnapshot, 1> snapshots = {};  // the step leaves these on its way
  const Request* request;                                // parameters; outlives the step
  // Limits this step's sample, if there is one; null: any token may come. Outlives the step.
  TokenConstraint* constraint = nullptr;
};

struct SchedulerOutput {
  uint64_t step = 0;
  // Sequences with num_new == 1 that sample (decodes) first, then chunks of prompts.
  std::vector<ScheduledSequence> sequences;
  int64_t num_tokens = 0;
  bool empty() const { return sequences.empty(); }
};

struct TokenLogprobs {
  float logprob = 0;
  int32_t rank = 0;
  std::vector<std::pair<TokenId, float>> top;  // most likely first
};

struct SampledToken {
  TokenId id = -1;
  std::unique_ptr<TokenLogprobs> logprobs = nullptr;  // if asked for
};

// The result of one scheduled sequence; its place in the step says which sequence that is.
struct SequenceResult {
  bool is_broken = false;  // the model's logits had a NaN: there is nothing else, and no more comes
  absl::InlinedVector<SampledToken, 1> samples;  // [num_samples]
  std::vector<std::pair<TokenId, TokenLogprobs>>
      prompt_logprobs;  // of the prompt tokens start+1 .. start+num_new, if wanted
};

struct StepResult {
  uint64_t step = 0;
  std::vector<SequenceResult> sequences;  // in the order of the SchedulerOutput
};

// A message of the scheduler about a sequence, after Commit, Cancel or a refusal.
struct SequenceEvent {
  enum class Kind : uint8_t { kStarted, kToken, kPromptLogprobs, kFinished };
  Kind kind;
  SequenceKey key;
  int64_t num_cached_tokens = 0;            // kStarted: prompt tokens found in the prefix cache
  TokenId token = -1;                       // kToken
  std::unique_ptr<TokenLogprobs> logprobs;  // kToken
  std::vector<std::pair<TokenId, TokenLogprobs>> prompt_logprobs;  // kPromptLogprobs
  FinishReason reason = FinishReason::kNone;                       // kFinished
  TokenId matched_token = -1;             // kFinished by a stop token: which
  int32_t num_preemptions = 0;            // kFinished
  absl::Status error = absl::OkStatus();  // kFinished with kError: why; OK if it was cancelled
  bool is_broken = false;                 // .. because of its logits (SequenceResult)
};

}  // namespace quire
