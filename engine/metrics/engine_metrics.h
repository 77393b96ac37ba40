// EngineMetrics: what the engine has counted since it was opened: tokens, ends, times. Written by
// the engine's thread alone, which never waits for a reader; read by any. Sequences count, as in
// vLLM: a request with n continuations counts n times.
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
  // num_experts: ExpertTokens'; empty where they are not counted.
  explicit EngineMetrics(int64_t max_model_len, std::vector<int32_t> num_experts = {});

  // Of sequences that have their first token.
  Counter prompt_tokens;
  Counter cached_prompt_tokens;  // of them, found in the prefix cache
  Counter generated_tokens;
  std::array<Counter, kNumFinishReasons> finished;  // by FinishReason

  // Seconds. Of each first token, since the request came; of each further one, since the one
  // before.
  Histogram time_to_first_token;
  Histogram inter_token_latency;
  // Of each sequence that has ended.
  Histogram e2e_latency;            // since the request came
  Histogram queue_time;             // from the engine's queue to the first step
  Histogram prefill_time;           // from there to the first token
  Histogram decode_time;            // from there to the last one
  Histogram inference_time;         // both together
  Histogram time_per_output_token;  // the mean of a sequence with two tokens or more
  // Of each sequence that has ended.
  Histogram request_prompt_tokens;
  Histogram request_generated_tokens;
  Histogram request_max_tokens;
  // Of each request that has ended.
  Histogram request_n;
  Histogram request_longest;  // tokens of its longest continuation

  Counter broken_logits;  // requests that ended because the model's logits had a NaN

  Histogram step_tokens;     // run by a step
  Histogram step_sequences;  // in a step
  // The device's time, as far as the host sees it: since the step's launch or the end of the step
  // before, whichever is later.
  std::array<Histogram, kNumStepKinds> step_seconds;  // by StepKind

  ExpertTokens expert_tokens;
};

}  // namespace quire
