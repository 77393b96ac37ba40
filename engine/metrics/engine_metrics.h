// EngineMetrics: the counts of the engine since it was opened: tokens, ends, times. Only the
// engine's thread writes them, and it never waits for a reader; any thread reads them. Sequences
// count, as in vLLM: a request with n continuations counts n times.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/metrics/counter.h"
#include "engine/metrics/expert_tokens.h"
#include "scheduler/request.h"

namespace quire {

// Steps by what runs in them.
enum class StepKind : uint8_t { kDecode, kPrompt, kMixed };
inline constexpr int kNumStepKinds = 3;
inline constexpr int kNumFinishReasons = 5;  // of FinishReason

// vLLM's buckets of token counts: 1, 2, 5, 10, ... up to `most`.
std::vector<double> TokenCountBuckets(int64_t most);

struct EngineMetrics {
  // num_experts: as for ExpertTokens; empty if they are not counted.
  explicit EngineMetrics(int64_t max_model_len, std::vector<int32_t> num_experts = {});

  // Only sequences that have their first token count.
  Counter prompt_tokens;
  Counter cached_prompt_tokens;  // the part of them that was found in the prefix cache
  Counter generated_tokens;
  std::array<Counter, kNumFinishReasons> finished;  // by FinishReason

  // Times in seconds. A first token's time counts from when the request came, a further token's
  // time from the token before.
  Histogram time_to_first_token;
  Histogram inter_token_latency;
  // For each sequence that has ended.
  Histogram e2e_latency;            // since the request came
  Histogram queue_time;             // from the engine's queue to the first step
  Histogram prefill_time;           // from there to the first token
  Histogram decode_time;            // from there to the last one
  Histogram inference_time;         // both together
  Histogram time_per_output_token;  // the mean of a sequence with two tokens or more
  // For each sequence that has ended.
  Histogram request_prompt_tokens;
  Histogram request_generated_tokens;
  Histogram request_max_tokens;
  // For each request that has ended.
  Histogram request_n;
  Histogram request_longest;  // tokens of its longest continuation

  Counter broken_logits;  // requests that ended because the model's logits had a NaN

  Histogram step_tokens;     // tokens run by a step
  Histogram step_sequences;  // sequences in a step
  // The device's time, as far as the host sees it: since the step's launch or the end of the step
  // before, whichever is later.
  std::array<Histogram, kNumStepKinds> step_seconds;  // by StepKind

  ExpertTokens expert_tokens;
};

}  // namespace quire
