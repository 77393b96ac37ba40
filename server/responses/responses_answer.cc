#include "server/responses/responses_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/log/json_text.h"
#include "server/output/access_tokens.h"

namespace quire {

namespace {

std::string ErrorJson(absl::string_view sentence) {
  return absl::StrCat("{\"code\": \"server_error\", \"message\": ", JsonString(sentence), "}");
}

std::string UsageOfResponse(const v1::Usage& usage) {
  return absl::StrCat(
      "{\"input_tokens\": ", usage.prompt_tokens(),
      ", \"input_tokens_details\": {\"cached_tokens\": ", usage.cached_tokens(),
      ", \"cache_write_tokens\": 0}, \"output_tokens\": ", usage.completion_tokens(),
      ", \"output_tokens_details\": {\"reasoning_tokens\": 0}, \"total_tokens\": ",
      usage.prompt_tokens() + usage.completion_tokens(), "}");
}

}  // namespace

ResponsesAnswer::ResponsesAnswer(HttpCallRef call, ResponsesFormat format)
    : call_(std::move(call)),
      format_(std::move(format)),
      created_(absl::ToUnixSeconds(absl::Now())) {}

void ResponsesAnswer::SetReadyCallback(std::function<void()> on_ready) {
  on_ready_ = std::move(on_ready);
}

void ResponsesAnswer::Send(v1::GenerateResponse response) {
  std::string events = Take(response);
  if (events.empty()) {
    on_ready_();
    return;
  }
  Begin();
  call_->Send(std::move(events), on_ready_);
}

void ResponsesAnswer::SendLast(v1::GenerateResponse response) {
  std::string events = Take(response);
  if (!events.empty()) {
    Begin();
    call_->Send(std::move(events), nullptr);
  }
  End(absl::OkStatus());
}

void ResponsesAnswer::End(const absl::Status& status) {
  call_->SetAccess(std::move(access_));
  if (!status.ok()) {
    Fail(InResponsesTerms(status));
  } else if (format_.streams) {
    call_->Finish(absl::StatusCode::kOk);
  } else {
    call_->Answer({.body = Response(), .headers = RequestIdHeader(format_.id)});
  }
  delete this;
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
  call_->EndWithError(std::move(answer), ResponseEvent("response.failed"), status.code());
}

std::string ResponsesAnswer::Take(const v1::GenerateResponse& response) {
  NoteResponse(response, &access_);
  std::string events;
  switch (response.event_case()) {
    case v1::GenerateResponse::kStarted:
      events = TakeStart(response.started());
      break;
    case v1::GenerateResponse::kDelta:
      events = TakeDelta(response.delta());
      break;
    case v1::GenerateResponse::kFinished:
      events = TakeFinish(response.finished());
      break;
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
  return events;
}

std::string ResponsesAnswer::TakeStart(const v1::Started&) {
  if (!format_.streams) return "";
  std::string events = ResponseEvent("response.created");
  events += ResponseEvent("response.in_progress");
  events += ItemEvent("response.output_item.added");
  events += PartEvent("response.content_part.added", absl::StrCat("\"part\": ", Part("", "[]")));
  return events;
}

std::string ResponsesAnswer::TakeDelta(const v1::Delta& delta) {
  LogprobJson logprobs;
  if (format_.logprobs) {
    logprobs.Add(delta.logprobs(), {.is_chat = true}, &num_characters_);
    logprobs_.Add(logprobs);
  }
  text_ += delta.text();
  if (!format_.streams || (delta.text().empty() && delta.logprobs().empty())) return "";
  return PartEvent("response.output_text.delta",
                   absl::StrCat("\"delta\": ", JsonString(delta.text()),
                                ", \"logprobs\": ", logprobs.ContentList()));
}

std::string ResponsesAnswer::TakeFinish(const v1::Finished& finished) {
  usage_ = finished.usage();
  switch (finished.finish_reason()) {
    case v1::FINISH_REASON_STOP:
      status_ = "completed";
      break;
    case v1::FINISH_REASON_LENGTH:
      status_ = "incomplete";
      break;
    default:
      status_ = "failed";
      error_ = ErrorJson("an operator ended the request");
  }
  if (!format_.streams) return "";
  const std::string logprobs = logprobs_.ContentList();
  std::string events =
      PartEvent("response.output_text.done",
                absl::StrCat("\"text\": ", JsonString(text_), ", \"logprobs\": ", logprobs));
  events +=
      PartEvent("response.content_part.done", absl::StrCat("\"part\": ", Part(text_, logprobs)));
  events += ItemEvent("response.output_item.done");
  events += ResponseEvent(absl::StrCat("response.", status_));
  return events;
}

std::string ResponsesAnswer::Event(absl::string_view type, absl::string_view members) {
  return absl::StrCat("event: ", type, "\ndata: {\"type\": \"", type,
                      "\", \"sequence_number\": ", num_events_++, ", ", members, "}\n\n");
}

std::string ResponsesAnswer::ResponseEvent(absl::string_view type) {
  return Event(type, absl::StrCat("\"response\": ", Response()));
}

std::string ResponsesAnswer::PartEvent(absl::string_view type, absl::string_view members) {
  return Event(type, absl::StrCat("\"item_id\": \"", format_.item_id,
                                  "\", \"output_index\": 0, \"content_index\": 0, ", members));
}

std::string ResponsesAnswer::ItemEvent(absl::string_view type) {
  return Event(type, absl::StrCat("\"output_index\": 0, \"item\": ", Item()));
}

std::string ResponsesAnswer::Part(absl::string_view text, absl::string_view logprobs) const {
  return absl::StrCat("{\"type\": \"output_text\", \"text\": ", JsonString(text),
                      ", \"annotations\": [], \"logprobs\": ", logprobs, "}");
}

std::string ResponsesAnswer::Item() const {
  const bool has_ended = status_ != "in_progress";
  return absl::StrCat("{\"id\": \"", format_.item_id,
                      "\", \"type\": \"message\", \"role\": \"assistant\", ", "\"status\": \"",
                      status_ == "failed" ? "incomplete" : status_, "\", \"content\": [",
                      has_ended ? Part(text_, logprobs_.ContentList()) : "", "]}");
}

std::string ResponsesAnswer::Response() const {
  const bool has_ended = status_ != "in_progress";
  return absl::StrCat(
      "{\"id\": ", JsonString(format_.id), ", \"object\": \"response\", \"created_at\": ", created_,
      ", \"completed_at\": ",
      status_ == "completed" ? absl::StrCat(absl::ToUnixSeconds(absl::Now())) : "null",
      ", \"status\": \"", status_, "\", \"error\": ", error_, ", \"incomplete_details\": ",
      status_ == "incomplete" ? "{\"reason\": \"max_output_tokens\"}" : "null", ", \"output\": [",
      has_ended ? Item() : "",
      "], \"usage\": ", usage_.prompt_tokens() > 0 ? UsageOfResponse(usage_) : "null", ", ",
      format_.members, "}");
}

}  // namespace quire
