#include "server/surfaces/openai/openai_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/base/clock.h"
#include "server/base/version.h"
#include "server/text/json_text.h"
#include "server/text/utf8.h"

namespace quire {

namespace {

std::string BeginningOf(const OpenAiFormat& format) {
  absl::string_view object = format.is_chat ? "chat.completion" : "text_completion";
  return absl::StrCat("{\"id\": ", JsonString(format.id), ", \"object\": \"", object,
                      format.is_chat && format.streams ? ".chunk" : "",
                      "\", \"created\": ", absl::ToUnixSeconds(WallNow()),
                      ", \"model\": ", JsonString(format.model),
                      ", \"system_fingerprint\": \"quire-", kVersion, "\", \"choices\": [");
}

// The members that describe the prompt, as far as the client asked for them.
std::string PromptMembers(const OpenAiFormat& format, const Started& started) {
  std::string members;
  if (format.returns_token_ids) {
    absl::StrAppend(&members, ", \"prompt_token_ids\": ", TokenIdsJson(started.prompt_token_ids));
  }
  if (format.prompt_logprobs) {
    absl::StrAppend(&members,
                    ", \"prompt_logprobs\": ", PromptLogprobsJson(started.prompt_logprobs));
  }
  return members;
}

}  // namespace

class OpenAiAnswer::Writer final : public AnswerWriter {
 public:
  Writer(std::shared_ptr<OpenAiAnswer> answer, size_t prompt)
      : answer_(std::move(answer)), prompt_(prompt) {}

  void TakePrompt(absl::Span<const TokenId> prompt) override { answer_->TakePrompt(prompt); }
  bool KeepsAnswer() const override { return !answer_->format_.streams; }
  size_t AnswerBytes(const AnswerPart& part) const override { return NumBytes(part, kJsonBytes); }
  void Write(AnswerPart part, const std::function<void()>& on_ready) override {
    if (answer_->Take(prompt_, part, on_ready)) on_ready();
  }
  void End(const absl::Status& status, AccessEntry access) override {
    access.model = answer_->format_.model;
    answer_->call_->SetAccess(std::move(access));
    answer_->End(prompt_, status);
  }

 private:
  const std::shared_ptr<OpenAiAnswer> answer_;
  const size_t prompt_;
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
      num_open_(tokens_.size()) {
  if (format_.streams) call_->KeepAlive(EventStreamHead(format_.id));
}

std::unique_ptr<AnswerWriter> OpenAiAnswer::NewWriter(size_t prompt) {
  return std::make_unique<Writer>(shared_from_this(), prompt);
}

void OpenAiAnswer::TakePrompt(absl::Span<const TokenId> prompt) {
  if (format_.message.answer.reasoning.is_none()) return;
  absl::MutexLock lock(&mutex_);
  in_reasoning_ = format_.in_reasoning.value_or(answers_->BeginsInReasoning(prompt));
}

bool OpenAiAnswer::Take(size_t prompt, const AnswerPart& part,
                        const std::function<void()>& on_ready) {
  absl::MutexLock lock(&mutex_);
  // Now the request is known to be sound, and n with it.
  choices_.resize(prompts_.size() * static_cast<size_t>(format_.n));
  std::string events;
  if (const auto* started = std::get_if<Started>(&part)) {
    events = TakeStart(prompt, *started);
  } else if (const auto* delta = std::get_if<Delta>(&part)) {
    events = TakeDelta(prompt, *delta);
  } else {
    events = TakeFinish(prompt, std::get<Finished>(part));
  }
  if (!format_.streams || events.empty() || has_failed_) return true;
  Send(std::move(events), on_ready);
  return false;
}

void OpenAiAnswer::Send(std::string part, const std::function<void()>& on_ready) {
  if (!std::exchange(has_begun_, true)) call_->Begin(EventStreamHead(format_.id));
  call_->Send(std::move(part), on_ready);
}

std::string OpenAiAnswer::TakeStart(size_t prompt, const Started& started) {
  Prompt& whole = prompts_[prompt];
  const size_t index = prompt * static_cast<size_t>(format_.n) + started.index;
  Choice& choice = choices_[index];
  whole.num_tokens = started.prompt_tokens;
  whole.num_cached_tokens = started.cached_tokens;
  std::string members;
  if (started.index == 0) whole.members = members = PromptMembers(format_, started);
  if (format_.echoes) choice.text = format_.prompts[prompt];
  const std::string text = JsonString(choice.text);
  if (!format_.message.answer.finds_nothing()) {
    choice.message = std::make_unique<ChatMessage>(format_.message, in_reasoning_);
  }
  if (format_.is_chat) {
    return Event(index,
                 absl::StrCat("\"delta\": {\"role\": \"assistant\", \"content\": ", text, "}"),
                 "null", "", members);
  }
  if (!format_.echoes && members.empty()) return "";
  choice.offset = static_cast<int64_t>(CountCharacters(choice.text));
  if (format_.echoes && !started.prompt_logprobs.empty()) {
    whole.logprobs.Add(started.prompt_logprobs, {.as_ids = format_.spells_token_ids});
    whole.logprobs.EndOffsetsAt(choice.offset);
  }
  choice.logprobs.Add(whole.logprobs);
  return Event(index, absl::StrCat("\"text\": ", text, TokenIds("")),
               format_.logprobs ? whole.logprobs.ToText(false) : "null", "", members);
}

// A choice's member, with a comma before it.
std::string OpenAiAnswer::TokenIds(absl::string_view ids) const {
  return format_.returns_token_ids ? absl::StrCat(", \"token_ids\": [", ids, "]") : "";
}

std::string OpenAiAnswer::TakeDelta(size_t prompt, const Delta& delta) {
  const size_t index = prompt * static_cast<size_t>(format_.n) + delta.index;
  Choice& choice = choices_[index];
  choice.num_tokens += static_cast<int64_t>(delta.token_ids.size());
  const LogprobStyle style = {.is_chat = format_.is_chat,
                              .as_ids = format_.spells_token_ids,
                              .first_offset = choice.offset};
  LogprobJson logprobs;
  if (format_.logprobs) logprobs.Add(delta.logprobs, style);
  const std::string ids = absl::StrJoin(delta.token_ids, ", ");
  const bool tells_ids = format_.returns_token_ids && !ids.empty();
  if (!format_.streams) {
    choice.logprobs.Add(logprobs);
    absl::StrAppend(&choice.token_ids, choice.token_ids.empty() || ids.empty() ? "" : ", ", ids);
  }
  if (choice.message != nullptr) {
    std::vector<std::string> deltas = choice.message->Append(delta.text);
    if (deltas.empty() && (!delta.logprobs.empty() || tells_ids)) deltas.push_back("{}");
    return Events(index, deltas, format_.logprobs ? logprobs.ToText(true) : "null", ids);
  }
  if (!format_.streams) {
    choice.text.append(delta.text);
    return "";
  }
  if (delta.text.empty() && delta.logprobs.empty() && !tells_ids) return "";
  const std::string text = JsonString(delta.text);
  return Event(index,
               absl::StrCat(format_.is_chat ? absl::StrCat("\"delta\": {\"content\": ", text, "}")
                                            : absl::StrCat("\"text\": ", text),
                            TokenIds(ids)),
               format_.logprobs ? logprobs.ToText(format_.is_chat) : "null", "");
}

std::string OpenAiAnswer::TakeFinish(size_t prompt, const Finished& finished) {
  const size_t index = prompt * static_cast<size_t>(format_.n) + finished.index;
  Choice& choice = choices_[index];
  choice.num_tokens = finished.usage.completion_tokens;
  std::string rest;
  if (choice.message != nullptr) rest = Events(index, choice.message->Finish(), "null", "");
  const bool calls = choice.message != nullptr && choice.message->has_calls() &&
                     !format_.names_function && finished.reason == FinishReason::kStop;
  choice.finish = absl::StrCat("\"", calls ? "tool_calls" : FinishReasonName(finished.reason),
                               "\", \"stop_reason\": ", StopReasonJson(finished));
  if (!format_.streams) {
    choice.logprobs.EndOffsetsAt(static_cast<int64_t>(CountCharacters(choice.text)));
    return "";
  }
  return rest +
         Event(index,
               absl::StrCat(format_.is_chat ? "\"delta\": {}" : "\"text\": \"\"", TokenIds("")),
               // As vLLM does it: a client that asked for logprobs of a completion finds lists in
               // every chunk.
               format_.logprobs && !format_.is_chat ? LogprobJson().ToText(false) : "null",
               choice.finish);
}

std::string OpenAiAnswer::Events(size_t index, const std::vector<std::string>& deltas,
                                 absl::string_view logprobs, absl::string_view ids) const {
  std::string events;
  for (const std::string& delta : deltas) {
    events += Event(index, absl::StrCat("\"delta\": ", delta, TokenIds(ids)), logprobs, "");
    logprobs = "null";
    ids = "";
  }
  return events;
}

// A chunk of one choice.
std::string OpenAiAnswer::Event(size_t index, absl::string_view content, absl::string_view logprobs,
                                absl::string_view finish, absl::string_view more) const {
  if (!format_.streams) return "";
  const std::string choice = absl::StrCat(
      "{\"index\": ", index, ", ", content, format_.is_chat ? "" : more,
      ", \"logprobs\": ", logprobs, ", \"finish_reason\": ", finish.empty() ? "null" : finish, "}");
  std::string members(format_.is_chat ? more : "");
  if (format_.includes_usage) {
    absl::StrAppend(&members, ", \"usage\": ", format_.continuous_usage ? Usage() : "null");
  }
  return Chunk(choice, members);
}

// `more`: members, each with a comma before it.
std::string OpenAiAnswer::Chunk(absl::string_view choices, absl::string_view more) const {
  return absl::StrCat("data: ", beginning_, choices, "]", more, "}\n\n");
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
    const Prompt& prompt = prompts_[i / static_cast<size_t>(format_.n)];
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
                    TokenIds(choice.token_ids), format_.is_chat ? "" : prompt.members,
                    ", \"finish_reason\": ", choice.finish, "}");
  }
  return absl::StrCat(answer, "]", format_.is_chat ? prompts_[0].members : "",
                      ", \"usage\": ", Usage(), "}");
}

void OpenAiAnswer::End(size_t prompt, const absl::Status& status) {
  bool ends_others = false;
  {
    absl::MutexLock lock(&mutex_);
    --num_open_;
    if (has_failed_) return;
    if (!status.ok()) {
      FailAll(status);
      ends_others = num_open_ > 0;
    } else if (num_open_ == 0 && format_.streams) {
      Send(absl::StrCat(
               format_.includes_usage ? Chunk("", absl::StrCat(", \"usage\": ", Usage())) : "",
               "data: [DONE]\n\n"),
           nullptr);
      call_->Finish(absl::StatusCode::kOk);
    } else if (num_open_ == 0) {
      call_->Answer({.body = WholeAnswer(), .headers = RequestIdHeader(format_.id)});
    }
  }
  if (!ends_others) return;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (i != prompt) tokens_[i]->Abandon();
  }
}

// Once a stream has begun its status is gone: the error is its last event.
void OpenAiAnswer::FailAll(const absl::Status& status) {
  has_failed_ = true;
  HttpAnswer answer = ErrorAnswer(status);
  for (auto& header : RequestIdHeader(format_.id)) answer.headers.push_back(std::move(header));
  std::string event = absl::StrCat("data: ", answer.body, "\n\ndata: [DONE]\n\n");
  call_->EndWithError(std::move(answer), std::move(event), status.code());
}

}  // namespace quire
