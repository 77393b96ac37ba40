// A tiny model with random weights, an Engine around it, and a blocking client for tests.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_config.h"

namespace quire::testing {

// Writes a config.json of a 2-layer Qwen3 with vocabulary 64 and 512 positions; returns the folder.
std::string MakeTinyModelFolder();

// Options for such a model: float32, dummy weights, two threads, a small KV cache.
EngineConfig TinyConfig(const std::string& folder);

// The answer that came back for one continuation.
struct Answer {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;
  std::vector<std::pair<TokenId, TokenLogprobs>> prompt_logprobs;
  FinishReason reason = FinishReason::kNone;
  TokenId matched_token = -1;
  int64_t cached_tokens = -1;
  absl::Status status;
};

// Listens to any number of streams and lets the test's thread wait for news. It must outlive the
// engine, whose last notice may come when the stream has been read to its end.
class Waiter : public OutputListener {
 public:
  void OnOutput(const std::shared_ptr<OutputStream>& stream) override;
  // Sleeps until some stream has news since the last call.
  void Wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;
};

// Reads a stream to its end; one Answer per continuation.
std::vector<Answer> ReadAll(OutputStream& stream, Waiter& waiter);

// Submits and reads to the end; the request must be accepted.
Answer Generate(Engine& engine, const Request& request);

// A greedy request over the given prompt.
Request GreedyRequest(std::vector<TokenId> prompt, int64_t max_tokens);

// `length` pseudo-random token ids below 64, different for every seed.
std::vector<TokenId> RandomPrompt(int64_t length, uint32_t seed);

}  // namespace quire::testing
