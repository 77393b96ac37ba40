#include "server/surfaces/responses/responses_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/clock.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

std::string ErrorJson(absl::string_view sentence) {
  return absl::StrCat("{\"code\": \"server_error\", \"message\": ", JsonString(sentence), "}");
}

std::string UsageOfResponse(const Usage& usage, int64_t reasoning_tokens) {
  return absl::StrCat("{\"input_tokens\": ", usage.prompt_tokens,
                      ", \"input_tokens_details\": {\"cached_tokens\": ", usage.cached_tokens,
                      ", \"cache_write_tokens\": 0}, \"output_tokens\": ", usage.completion_tokens,
                      ", \"output_tokens_details\": {\"reasoning_tokens\": ", reasoning_tokens,
                      "}, \"total_tokens\": ", usage.prompt_tokens + usage.completion_tokens, "}");
}

}  // namespace

ResponsesAnswer::ResponsesAnswer(HttpCallRef call, ResponsesFormat format,
                                 const ModelAnswers* answers)
    : call_(std::move(call)),
      format_(std::move(format)),
      answers_(answers),
      created_(absl::ToUnixSeconds(WallNow())),
      items_(&format_) {
  if (format_.streams) call_->KeepAlive(EventStreamHead(format_.id));
}

void ResponsesAnswer::TakePrompt(absl::Span<const TokenId> prompt) {
  if (format_.answer.reasoning.is_none()) return;
  in_reasoning_ = format_.in_reasoning.value_or(answers_->BeginsInReasoning(prompt));
}

void ResponsesAnswer::Write(AnswerPart part, const std::function<void()>& on_ready) {
  std::string events = Take(part);
  if (events.empty()) {
    on_ready();
    return;
  }
  Begin();
  call_->Send(std::move(events), on_ready);
}

void ResponsesAnswer::End(const absl::Status& status, AccessEntry access) {
  call_->SetAccess(std::move(access));
  if (!status.ok()) {
    Fail(status);
  } else if (format_.streams) {
    call_->Finish(absl::StatusCode::kOk);
  } else {
    call_->Answer({.body = Response(), .headers = RequestIdHeader(format_.id)});
  }
}

void ResponsesAnswer::Begin() {
  if (!std::exchange(has_begun_, true)) call_->Begin(EventStreamHead(format_.id));
}

// Once a stream has begun its status is gone: the error is its last event.
void ResponsesAnswer::Fail(const absl::Status& status) {
  HttpAnswer answer = ErrorAnswer(status);
  for (auto& header : RequestIdHeader(format_.id)) answer.headers.push_back(std::move(header));
  status_ = "failed";
  error_ = ErrorJson(status.message());
  std::string events = has_begun_ ? items_.Finish("incomplete") : "";
  events += ResponseEvent("response.failed");
  call_->EndWithError(std::move(answer), std::move(events), status.code());
}

std::string ResponsesAnswer::Take(const AnswerPart& part) {
  if (const auto* started = std::get_if<Started>(&part)) return TakeStart(*started);
  if (const auto* delta = std::get_if<Delta>(&part)) return TakeDelta(*delta);
  return TakeFinish(std::get<Finished>(part));
}

std::string ResponsesAnswer::TakeStart(const Started&) {
  std::string events;
  if (format_.streams) {
    events = ResponseEvent("response.created");
    events += ResponseEvent("response.in_progress");
  }
  if (format_.answer.finds_nothing()) return events + items_.BeginMessage();
  parser_ = std::make_unique<AnswerParser>(format_.answer, in_reasoning_);
  return events;
}

std::string ResponsesAnswer::TakeDelta(const Delta& delta) {
  LogprobJson logprobs;
  if (format_.logprobs) logprobs.Add(delta.logprobs, {.is_chat = true});
  if (parser_ != nullptr) {
    held_logprobs_.Add(logprobs);
    return AddAll(parser_->Append(delta.text), delta);
  }
  if (delta.text.empty() && delta.logprobs.empty()) return "";
  return items_.Add(AnswerEvent::Kind::kContent, delta.text, logprobs);
}

std::string ResponsesAnswer::AddAll(const std::vector<AnswerEvent>& events, const Delta& delta) {
  std::string told;
  for (const AnswerEvent& event : events) {
    const bool is_reasoning = event.kind == AnswerEvent::Kind::kReasoning;
    in_reasoning_ |= is_reasoning;
    has_answered_ |= !is_reasoning;
    // Those of a call's and of reasoning's tokens have no place in an answer.
    const LogprobJson logprobs = std::exchange(held_logprobs_, {});
    const bool is_content = event.kind == AnswerEvent::Kind::kContent;
    told += items_.Add(event.kind, event.text, is_content ? logprobs : LogprobJson());
  }
  if (in_reasoning_ && !has_answered_)
    num_reasoning_tokens_ += static_cast<int64_t>(delta.token_ids.size());
  return told;
}

std::string ResponsesAnswer::TakeFinish(const Finished& finished) {
  usage_ = finished.usage;
  switch (finished.reason) {
    case FinishReason::kStop:
      status_ = "completed";
      break;
    case FinishReason::kLength:
      status_ = "incomplete";
      break;
    default:
      status_ = "failed";
      error_ = ErrorJson("an operator ended the request");
  }
  std::string events;
  if (parser_ != nullptr) events = AddAll(parser_->Finish(), Delta());
  events += items_.Finish(status_ == "completed" ? status_ : "incomplete");
  if (!format_.streams) return "";
  events += ResponseEvent(absl::StrCat("response.", status_));
  return events;
}

std::string ResponsesAnswer::ResponseEvent(absl::string_view type) {
  return items_.Event(type, absl::StrCat("\"response\": ", Response()));
}

std::string ResponsesAnswer::Response() const {
  const bool has_ended = status_ != "in_progress";
  return absl::StrCat(
      "{\"id\": ", JsonString(format_.id), ", \"object\": \"response\", \"created_at\": ", created_,
      ", \"completed_at\": ",
      status_ == "completed" ? absl::StrCat(absl::ToUnixSeconds(WallNow())) : "null",
      ", \"status\": \"", status_, "\", \"error\": ", error_, ", \"incomplete_details\": ",
      status_ == "incomplete" ? "{\"reason\": \"max_output_tokens\"}" : "null", ", \"output\": [",
      has_ended ? items_.ended() : "", "], \"usage\": ",
      usage_.prompt_tokens > 0 ? UsageOfResponse(usage_, num_reasoning_tokens_) : "null", ", ",
      format_.members, "}");
}

}  // namespace quire
