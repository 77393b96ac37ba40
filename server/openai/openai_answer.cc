#include "server/openai/openai_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/log/json_text.h"
#include "server/output/access_tokens.h"

namespace quire {

namespace {

std::string BeginningOf(const OpenAiFormat& format) {
  absl::string_view object = format.is_chat ? "chat.completion" : "text_completion";
  return absl::StrCat("{\"id\": ", JsonString(format.id), ", \"object\": \"", object,
                      format.is_chat && format.streams ? ".chunk" : "",
                      "\", \"created\": ", absl::ToUnixSeconds(absl::Now()),
                      ", \"model\": ", JsonString(format.model), ", \"choices\": [");
}

}  // namespace

class OpenAiAnswer::Sink final : public ResponseSink {
 public:
  Sink(std::shared_ptr<OpenAiAnswer> answer, size_t prompt)
      : answer_(std::move(answer)), prompt_(prompt) {
    access_.model = answer_->format_.model;
  }

  void SetReadyCallback(std::function<void()> on_ready) override {
    on_ready_ = std::move(on_ready);
  }
  void TakePrompt(absl::Span<const TokenId> prompt) override { answer_->TakePrompt(prompt); }
  void Send(v1::GenerateResponse response) override {
    NoteResponse(response, &access_);
    if (answer_->Take(prompt_, response, on_ready_)) on_ready_();
  }
  void SendLast(v1::GenerateResponse response) override {
    NoteResponse(response, &access_);
    answer_->Take(prompt_, response, nullptr);
    End(absl::OkStatus());
  }
  void End(const absl::Status& status) override {
    answer_->call_->SetAccess(std::move(access_));
    answer_->End(prompt_, status);
    delete this;
  }

 private:
  const std::shared_ptr<OpenAiAnswer> answer_;
  const size_t prompt_;
  std::function<void()> on_ready_;
  AccessEntry access_;
};

OpenAiAnswer::OpenAiAnswer(HttpCallRef call, OpenAiFormat format, const ModelAnswers* answers,
                           std::vector<std::shared_ptr<CancelToken>> tokens)
    : call_(std::move(call)),
      format_(std::move(format)),
      answers_(answers),
      tokens_(std::move(tokens)),
      beginning_(BeginningOf(format_)),
      prompts_(tokens_.size()),
      choices_(0),
      num_open_(tokens_.size()) {}

ResponseSink* OpenAiAnswer::NewSink(size_t prompt) { return new Sink(shared_from_this(), prompt); }

void OpenAiAnswer::TakePrompt(absl::Span<const TokenId> prompt) {
  if (format_.message.answer.reasoning.is_none()) return;
  absl::MutexLock lock(&mutex_);
  in_reasoning_ = format_.in_reasoning.value_or(answers_->BeginsInReasoning(prompt));
}

bool OpenAiAnswer::Take(size_t prompt, const v1::GenerateResponse& response,
                        const std::function<void()>& on_ready) {
  absl::MutexLock lock(&mutex_);
  // Now the request is known to be sound, and n with it.
  choices_.resize(prompts_.size() * static_cast<size_t>(format_.n));
  std::string part;
  switch (response.event_case()) {
    case v1::GenerateResponse::kStarted:
      part = TakeStart(prompt, response.started());
      break;
    case v1::GenerateResponse::kDelta:
      part = TakeDelta(prompt, response.delta());
      break;
    case v1::GenerateResponse::kFinished:
      part = TakeFinish(prompt, response.finished());
      break;
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
  if (!format_.streams || part.empty() || has_failed_) return true;
  Send(std::move(part), on_ready);
  return false;
}

void OpenAiAnswer::Send(std::string part, const std::function<void()>& on_ready) {
  if (!std::exchange(has_begun_, true)) {
    call_->Begin({.content_type = "text/event-stream; charset=utf-8",
                  .headers = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}}});
  }
  call_->Send(std::move(part), on_ready);
}

std::string OpenAiAnswer::TakeStart(size_t prompt, const v1::Started& started) {
  Prompt& whole = prompts_[prompt];
  const size_t index = prompt * static_cast<size_t>(format_.n) + started.index();
  Choice& choice = choices_[index];
  whole.num_tokens = started.prompt_tokens();
  whole.num_cached_tokens = started.cached_tokens();
  if (!started.prompt_logprobs().empty()) {
    whole.logprobs.Add(started.prompt_logprobs(), format_.is_chat, &whole.num_characters);
  }
  if (!format_.message.answer.finds_nothing()) {
    choice.message = std::make_unique<ChatMessage>(format_.message, in_reasoning_);
  }
  if (format_.is_chat) {
    return Event(index, "\"delta\": {\"role\": \"assistant\", \"content\": \"\"}", "null", "");
  }
  if (!format_.echoes) return "";
  choice.text = format_.prompts[prompt];
  choice.logprobs.Add(whole.logprobs);
  choice.offset = CountCharacters(choice.text);
  return Event(index, absl::StrCat("\"text\": ", JsonString(choice.text)),
               format_.logprobs ? whole.logprobs.ToText(false) : "null", "");
}

std::string OpenAiAnswer::TakeDelta(size_t prompt, const v1::Delta& delta) {
  const size_t index = prompt * static_cast<size_t>(format_.n) + delta.index();
  Choice& choice = choices_[index];
  choice.num_tokens += delta.token_ids_size();
  LogprobJson logprobs;
  if (format_.logprobs) logprobs.Add(delta.logprobs(), format_.is_chat, &choice.offset);
  if (!format_.streams) choice.logprobs.Add(logprobs);
  if (choice.message != nullptr) {
    std::vector<std::string> deltas = choice.message->Append(delta.text());
    if (deltas.empty() && !delta.logprobs().empty()) deltas.push_back("{}");
    return Events(index, deltas, format_.logprobs ? logprobs.ToText(true) : "null");
  }
  if (!format_.streams) {
    choice.text.append(delta.text());
    return "";
  }
  if (delta.text().empty() && delta.logprobs().empty()) return "";
  const std::string text = JsonString(delta.text());
  return Event(index,
               format_.is_chat ? absl::StrCat("\"delta\": {\"content\": ", text, "}")
                               : absl::StrCat("\"text\": ", text),
               format_.logprobs ? logprobs.ToText(format_.is_chat) : "null", "");
}

std::string OpenAiAnswer::TakeFinish(size_t prompt, const v1::Finished& finished) {
  const size_t index = prompt * static_cast<size_t>(format_.n) + finished.index();
  Choice& choice = choices_[index];
  choice.num_tokens = finished.usage().completion_tokens();
  std::string rest;
  if (choice.message != nullptr) rest = Events(index, choice.message->Finish(), "null");
  const bool calls = choice.message != nullptr && choice.message->has_calls() &&
                     finished.finish_reason() == v1::FINISH_REASON_STOP;
  choice.finish =
      absl::StrCat(calls ? "\"tool_calls\"" : FinishReasonJson(finished.finish_reason()),
                   ", \"stop_reason\": ", StopReasonJson(finished));
  if (!format_.streams) return "";
  return rest +
         Event(index, format_.is_chat ? "\"delta\": {}" : "\"text\": \"\"", "null", choice.finish);
}

std::string OpenAiAnswer::Events(size_t index, const std::vector<std::string>& deltas,
                                 absl::string_view logprobs) const {
  std::string events;
  for (const std::string& delta : deltas) {
    events += Event(index, absl::StrCat("\"delta\": ", delta), logprobs, "");
    logprobs = "null";
  }
  return events;
}

// A chunk of one choice.
std::string OpenAiAnswer::Event(size_t index, absl::string_view content, absl::string_view logprobs,
                                absl::string_view finish) const {
  if (!format_.streams) return "";
  const std::string choice =
      absl::StrCat("{\"index\": ", index, ", ", content, ", \"logprobs\": ", logprobs,
                   ", \"finish_reason\": ", finish.empty() ? "null" : finish, "}");
  if (format_.continuous_usage) return Chunk(choice, Usage());
  return Chunk(choice, format_.includes_usage ? "null" : "");
}

std::string OpenAiAnswer::Chunk(absl::string_view choices, absl::string_view usage) const {
  return absl::StrCat("data: ", beginning_, choices, "]",
                      usage.empty() ? "" : ", \"usage\": ", usage, "}\n\n");
}

std::string OpenAiAnswer::Usage() const {
  int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  for (const Prompt& prompt : prompts_) {
    prompt_tokens += prompt.num_tokens;
    cached_tokens += prompt.num_cached_tokens;
  }
  for (const Choice& choice : choices_) completion_tokens += choice.num_tokens;
  return UsageJson(prompt_tokens, cached_tokens, completion_tokens);
}

std::string OpenAiAnswer::WholeAnswer() const {
  std::string answer = beginning_;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    absl::StrAppend(&answer, i == 0 ? "" : ", ", "{\"index\": ", i, ", ");
    if (choice.message != nullptr) {
      absl::StrAppend(&answer, "\"message\": ", choice.message->ToJson());
    } else if (format_.is_chat) {
      absl::StrAppend(&answer, "\"message\": {\"role\": \"assistant\", \"content\": ",
                      JsonString(choice.text), ", \"refusal\": null}");
    } else {
      absl::StrAppend(&answer, "\"text\": ", JsonString(choice.text));
    }
    absl::StrAppend(&answer, ", \"logprobs\": ",
                    format_.logprobs ? choice.logprobs.ToText(format_.is_chat) : "null",
                    ", \"finish_reason\": ", choice.finish, "}");
  }
  return absl::StrCat(answer, "], \"usage\": ", Usage(), "}");
}

void OpenAiAnswer::End(size_t prompt, const absl::Status& status) {
  bool ends_others = false;
  {
    absl::MutexLock lock(&mutex_);
    --num_open_;
    if (has_failed_) return;
    if (!status.ok()) {
      FailAll(InOpenAiTerms(status));
      ends_others = num_open_ > 0;
    } else if (num_open_ == 0 && format_.streams) {
      Send(absl::StrCat(format_.includes_usage ? Chunk("", Usage()) : "", "data: [DONE]\n\n"),
           nullptr);
      call_->Finish(absl::StatusCode::kOk);
    } else if (num_open_ == 0) {
      call_->Answer({.body = WholeAnswer()});
    }
  }
  if (!ends_others) return;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (i != prompt) tokens_[i]->Cancel();
  }
}

// Once a stream has begun its status is gone: the error is its last event.
void OpenAiAnswer::FailAll(const absl::Status& status) {
  has_failed_ = true;
  const HttpAnswer answer = ErrorAnswer(status);
  if (!has_begun_) {
    call_->Answer(answer);
    return;
  }
  call_->Send(absl::StrCat("data: ", answer.body, "\n\ndata: [DONE]\n\n"), nullptr);
  call_->Finish(status.code());
}

}  // namespace quire
