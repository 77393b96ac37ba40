// ResponsesAnswer: an answer as OpenAI's response object on one call: whole, or as its events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/call/http_call.h"
#include "server/request/output/answer_writer.h"
#include "server/surfaces/openai/openai_json.h"
#include "server/surfaces/responses/response_items.h"
#include "server/surfaces/responses/responses_request.h"
#include "server/text/answer/answer_parser.h"
#include "server/text/answer/model_answers.h"

namespace quire {

class ResponsesAnswer final : public AnswerWriter {
 public:
  // `answers` outlives the call.
  ResponsesAnswer(HttpCallRef call, ResponsesFormat format, const ModelAnswers* answers);

  void TakePrompt(absl::Span<const TokenId> prompt) override;
  bool KeepsAnswer() const override { return true; }  // the last events of a stream repeat it
  size_t AnswerBytes(const AnswerPart& part) const override { return NumBytes(part, kJsonBytes); }
  void Write(AnswerPart part, const std::function<void()>& on_ready) override;
  void End(const absl::Status& status, AccessEntry access) override;

 private:
  // The events of a stream; nothing if the answer is sent whole.
  std::string Take(const AnswerPart& part);
  std::string TakeStart(const Started& started);
  std::string TakeDelta(const Delta& delta);
  std::string TakeFinish(const Finished& finished);
  void Fail(const absl::Status& status);
  void Begin();

  // Adds the events into which the text was taken apart.
  std::string AddAll(const std::vector<AnswerEvent>& events, const Delta& delta);
  std::string ResponseEvent(absl::string_view type);
  std::string Response() const;

  const HttpCallRef call_;
  const ResponsesFormat format_;
  const ModelAnswers* const answers_;
  const int64_t created_;  // Unix seconds

  absl::string_view status_ = "in_progress";
  std::string error_ = "null";
  ResponseItems items_;
  std::unique_ptr<AnswerParser> parser_;  // null: all is the message's
  bool in_reasoning_ = false;             // the answer begins there, or is there
  bool has_answered_ = false;             // there is more than reasoning
  LogprobJson held_logprobs_;             // of text that waits in the parser
  Usage usage_;
  int64_t num_reasoning_tokens_ = 0;
  bool has_begun_ = false;  // a stream
};

}  // namespace quire
