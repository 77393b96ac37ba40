// OpenAiAnswer: the answers to all prompts of one request as OpenAI's answer on one call: whole, or
// as server-sent events. Shared by its writers, one for each prompt: any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/call/http_call.h"
#include "server/request/cancel_token.h"
#include "server/request/output/answer_writer.h"
#include "server/surfaces/openai/chat_message.h"
#include "server/surfaces/openai/openai_json.h"
#include "server/surfaces/openai/openai_request.h"
#include "server/text/answer/model_answers.h"

namespace quire {

class OpenAiAnswer : public std::enable_shared_from_this<OpenAiAnswer> {
 public:
  // `answers` outlives the call. `tokens` cancel the requests, one for each prompt.
  OpenAiAnswer(HttpCallRef call, OpenAiFormat format, const ModelAnswers* answers,
               std::vector<std::shared_ptr<CancelToken>> tokens);

  // For the request of this prompt.
  std::unique_ptr<AnswerWriter> NewWriter(size_t prompt);

 private:
  class Writer;

  struct Choice {
    std::string text;
    std::unique_ptr<ChatMessage> message;  // null: the text is the content
    LogprobJson logprobs;
    std::string token_ids;  // a list's members
    int64_t offset = 0;     // of the answer in `text`: how many characters are echoed
    int64_t num_tokens = 0;
    std::string finish;  // its members, once it has ended
  };
  struct Prompt {
    int64_t num_tokens = 0;
    int64_t num_cached_tokens = 0;
    LogprobJson logprobs;
    // Members about the prompt, beside the answer, each with a comma before it.
    std::string members;
  };

  void TakePrompt(absl::Span<const TokenId> prompt);
  // True when the caller must call `on_ready`, because nothing is sent.
  bool Take(size_t prompt, const AnswerPart& part, const std::function<void()>& on_ready);
  void End(size_t prompt, const absl::Status& status);

  std::string TakeStart(size_t prompt, const Started& started)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string TakeDelta(size_t prompt, const Delta& delta) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string TakeFinish(size_t prompt, const Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chunks with the choice's message, the first with logprobs and token ids.
  std::string Events(size_t index, const std::vector<std::string>& deltas,
                     absl::string_view logprobs, absl::string_view ids) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `more`: members of the choice, or of a chat's chunk.
  std::string Event(size_t index, absl::string_view content, absl::string_view logprobs,
                    absl::string_view finish, absl::string_view more = "") const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Chunk(absl::string_view choices, absl::string_view more) const;
  std::string TokenIds(absl::string_view ids) const;
  std::string Usage() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string WholeAnswer() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailAll(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(std::string part, const std::function<void()>& on_ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const HttpCallRef call_;
  const OpenAiFormat format_;
  const ModelAnswers* const answers_;
  const std::vector<std::shared_ptr<CancelToken>> tokens_;
  const std::string beginning_;  // of the answer and of every chunk

  absl::Mutex mutex_;
  std::vector<Prompt> prompts_ ABSL_GUARDED_BY(mutex_);
  std::vector<Choice> choices_ ABSL_GUARDED_BY(mutex_);  // format_.n for each prompt
  size_t num_open_ ABSL_GUARDED_BY(mutex_);              // prompts
  bool in_reasoning_ ABSL_GUARDED_BY(mutex_) = false;    // when the answer begins
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;       // a stream
  bool has_failed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quire
