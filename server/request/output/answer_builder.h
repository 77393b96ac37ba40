// AnswerBuilder: turns the token events of one request into the parts of its answer: text through
// the stream decoder and the stop strings, logprobs, usage, timings. Tokens that arrive before the
// last part was taken are merged into one delta. No I/O; used by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/output_stream.h"
#include "scheduler/scheduler_output.h"
#include "server/request/answer.h"
#include "server/request/generation_job.h"
#include "server/text/tokenizer/stop_matcher.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire {

class AnswerBuilder {
 public:
  // `job` as it goes to the engine, prompt included.
  AnswerBuilder(std::shared_ptr<const Tokenizer> tokenizer, const GenerationJob& job,
                std::string request_id);
  ~AnswerBuilder();

  // Takes in one event; `times` belongs to kFinished. True when this token completed a stop string:
  // the continuation is over for the client and the caller ends it in the engine.
  bool Add(SequenceEvent event, const RequestTimes* times);

  // Whether Next has something.
  bool HasPart() const;
  // The next part, in the order of each continuation. False when there is nothing to send.
  bool Next(AnswerPart* part);

 private:
  struct Continuation;
  class PromptOffsets;

  Continuation& At(int32_t index);
  void AddStart(Continuation& continuation, const SequenceEvent& event);
  bool AddToken(Continuation& continuation, const SequenceEvent& event);
  void AddText(Continuation& continuation, TokenId token);
  void AddPromptToken(Continuation& continuation, TokenId token, const TokenLogprobs* logprobs);
  void AddPromptLogprobs(Continuation& continuation, const SequenceEvent& event);
  void AddEnd(Continuation& continuation, const SequenceEvent& event, const RequestTimes& times);
  bool IsStopToken(TokenId token) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const OutputOptions options_;
  const std::string request_id_;
  const int64_t num_prompt_tokens_;
  const TokenId first_prompt_token_;
  const int64_t min_tokens_;
  std::vector<TokenId> stop_tokens_;  // sorted: end tokens and the client's
  const StopMatcher stops_;
  const std::vector<TokenId> prompt_end_;
  std::vector<std::unique_ptr<Continuation>> continuations_;  // null before and after its events
  std::unique_ptr<PromptOffsets> prompt_offsets_;             // null unless the prompt has logprobs
};

}  // namespace quire
