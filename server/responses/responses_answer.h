// ResponsesAnswer: the responses of one request as OpenAI's response object on one call: whole, or
// as its events. Used as ResponseSink says; deletes itself with its last call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/log/access_entry.h"
#include "server/openai/openai_json.h"
#include "server/output/response_sink.h"
#include "server/responses/responses_request.h"
#include "server/web/http_call.h"

namespace quire {

class ResponsesAnswer final : public ResponseSink {
 public:
  ResponsesAnswer(HttpCallRef call, ResponsesFormat format);

  void SetReadyCallback(std::function<void()> on_ready) override;
  bool KeepsAnswer() const override { return true; }  // the last events of a stream repeat it
  size_t AnswerBytes(const v1::GenerateResponse& response) const override {
    return JsonBytes(response);
  }
  void Send(v1::GenerateResponse response) override;
  void SendLast(v1::GenerateResponse response) override;
  void End(const absl::Status& status) override;

 private:
  // The events of a stream; nothing where the answer is sent whole.
  std::string Take(const v1::GenerateResponse& response);
  std::string TakeStart(const v1::Started& started);
  std::string TakeDelta(const v1::Delta& delta);
  std::string TakeFinish(const v1::Finished& finished);
  void Fail(const absl::Status& status);
  void Begin();

  // `members` follow its type and number.
  std::string Event(absl::string_view type, absl::string_view members);
  std::string ResponseEvent(absl::string_view type);
  // Of the part of a message that has the text, or of the message.
  std::string PartEvent(absl::string_view type, absl::string_view members);
  std::string ItemEvent(absl::string_view type);

  std::string Part(absl::string_view text, absl::string_view logprobs) const;
  std::string Item() const;
  std::string Response() const;

  const HttpCallRef call_;
  const ResponsesFormat format_;
  const int64_t created_;  // Unix seconds
  std::function<void()> on_ready_;
  AccessEntry access_;

  absl::string_view status_ = "in_progress";
  std::string error_ = "null";
  std::string text_;
  LogprobJson logprobs_;
  size_t num_characters_ = 0;
  v1::Usage usage_;
  bool has_begun_ = false;  // a stream
  int64_t num_events_ = 0;
};

}  // namespace quire
