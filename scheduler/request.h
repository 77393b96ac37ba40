// Request: what a client asked for, in token ids; validated by the server, immutable afterwards.
// SamplingParams carries resolved values (the server has applied the model's defaults). Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "kernels/base/types.h"
#include "scheduler/token_constraint.h"

namespace quire {

struct SamplingParams {
  float temperature = 1.0f;  // 0 = greedy
  float top_p = 1.0f;
  int32_t top_k = 0;  // 0 = off
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  uint64_t seed = 0;  // chosen by the server when the client gave none
  int32_t n = 1;      // continuations; the i-th draws with a seed derived from (seed, i)
  std::vector<std::pair<TokenId, float>> logit_bias;
  int32_t logprobs = -1;         // -1 = none; k = the token's own and the k most likely
  int32_t prompt_logprobs = -1;  // likewise for every prompt token except the first
};

struct StopConditions {
  int64_t max_tokens = 16;
  int64_t min_tokens = 0;               // stop tokens cannot be drawn before this many
  std::vector<TokenId> eos_token_ids;   // empty with ignore_eos
  std::vector<TokenId> stop_token_ids;  // the client's
};

// The flow that a request belongs to. Requests of one flow share their flow's part of the server;
// flows share the server by weight (scheduler/fair_queue.h). Flow 0 stands for everybody, if nobody
// tells principals apart.
struct RequestFlow {
  uint64_t id = 0;
  int32_t weight = 1;  // 1 .. kMaxFlowWeight; that of the flow's latest request counts
};
inline constexpr int32_t kMaxFlowWeight = 1 << 10;

struct Request {
  RequestId id = 0;
  RequestFlow flow;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  StopConditions stop;
  std::shared_ptr<const TokenConstraintSource> constraint;  // null: any token may come
  int32_t priority = 0;    // within its flow: lower runs first, as in vLLM
  std::string cache_salt;  // only requests with equal salts share prefix cache entries
  // When it came to the program that made it a request; never later than when the engine got it.
  absl::Time arrived = absl::InfiniteFuture();
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kAbort, kError };

}  // namespace quire
