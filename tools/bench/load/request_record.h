// The record of one request of a load. Times in seconds from the load's beginning.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::bench {

enum class Outcome : uint8_t {
  kUnsent,       // because the run was interrupted, or its time was over
  kCompleted,    //
  kFailed,       // `problem` says why
  kInterrupted,  // cancelled by us, because the run ended
  kAbandoned,    // cancelled by us, because --cancel-rate says so
  kTimedOut,     // cancelled by us, at --deadline-ms
};

struct RequestRecord {
  Outcome outcome = Outcome::kUnsent;
  double scheduled = 0;  // when it was due
  double sent = 0;       // when it was sent: later if --max-concurrency made it wait
  double first_token = 0;
  double last_token = 0;
  double ended = 0;
  std::vector<float> itl_ms;      // between the pieces of an answer, each a token or more
  int64_t num_tokens = 0;         // received tokens
  int64_t prompt_tokens = 0;      // the server's count, else ours
  int64_t cached_tokens = 0;      // the server's count
  int64_t completion_tokens = 0;  // the server's count, else num_tokens
  std::string problem;
  int32_t turn = 0;          // of its conversation
  bool is_counted = false;   // completion_tokens counts tokens, not pieces
  bool has_stopped = false;  // at an end token or a stop text, as an OpenAI server says
  // Filled if the answer was kept.
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<float> logprobs, prompt_logprobs;

  bool got_tokens() const { return num_tokens > 0; }
  // The time from which its latencies count.
  double begin(bool from_due) const { return from_due ? scheduled : sent; }
};

}  // namespace quire::bench
