// Scripted sequence events for the tests of server/request/output, with the bundled model's
// tokenizer.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "scheduler/scheduler_output.h"
#include "server/request/generation_job.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire {

inline std::shared_ptr<const Tokenizer> DemoTokenizer() {
  static const auto& loaded = *new auto(Tokenizer::Load("configs/demo"));
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *loaded;
}

inline std::vector<TokenId> Encode(const std::string& text) {
  return *DemoTokenizer()->Encode(text, {.add_special_tokens = false});
}

inline GenerationJob TestJob(int n = 1) {
  GenerationJob job;
  job.request.prompt = Encode("Once upon a time");
  job.request.sampling.n = n;
  job.request.stop.max_tokens = 1000;
  return job;
}

inline SequenceEvent StartedEvent(int index = 0, int64_t num_cached = 0) {
  SequenceEvent event;
  event.kind = SequenceEvent::Kind::kStarted;
  event.key.index = index;
  event.num_cached_tokens = num_cached;
  return event;
}

inline SequenceEvent TokenEvent(TokenId token, int index = 0) {
  SequenceEvent event;
  event.kind = SequenceEvent::Kind::kToken;
  event.key.index = index;
  event.token = token;
  return event;
}

inline SequenceEvent FinishedEvent(FinishReason reason, int index = 0, TokenId matched = -1) {
  SequenceEvent event;
  event.kind = SequenceEvent::Kind::kFinished;
  event.key.index = index;
  event.reason = reason;
  event.matched_token = matched;
  return event;
}

}  // namespace quire
