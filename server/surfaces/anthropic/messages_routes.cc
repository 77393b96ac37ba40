#include "server/surfaces/anthropic/messages_routes.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "server/call/read_request.h"
#include "server/request/generate/tokenize.h"
#include "server/request/random_id.h"
#include "server/surfaces/anthropic/messages_request.h"
#include "server/surfaces/openai/body_routes.h"
#include "server/surfaces/openai/chat_message.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

using Kind = AnswerEvent::Kind;

std::string EventOf(absl::string_view type, absl::string_view members) {
  return absl::StrCat("event: ", type, "\ndata: {\"type\": \"", type, "\"", members, "}\n\n");
}

// Tokens from the prefix cache are counted apart from the other ones of the prompt.
std::string UsageOfMessage(const Usage& usage) {
  return absl::StrCat("{\"input_tokens\": ", usage.prompt_tokens - usage.cached_tokens,
                      ", \"cache_creation_input_tokens\": 0, \"cache_read_input_tokens\": ",
                      usage.cached_tokens, ", \"output_tokens\": ", usage.completion_tokens, "}");
}

std::string NewToolUseId(ToolFormat format) {
  return format == ToolFormat::kMistral ? NewCallId(format) : absl::StrCat("toolu_", RandomId());
}

// The blocks of an answer, one after the other, and the events that tell a stream of them.
class MessageBlocks {
 public:
  // A stream keeps nothing of its blocks; a whole answer keeps them and needs no events.
  explicit MessageBlocks(bool keeps) : keeps_(keeps) {}

  // Each returns the events of a stream.
  std::string Add(const AnswerEvent& event, ToolFormat format) {
    const Kind kind = event.kind == Kind::kArguments ? Kind::kCall : event.kind;
    std::string events;
    if (!is_open_ || kind_ != kind || event.kind == Kind::kCall) {
      events = Close();
      Open(kind, event.text, format);
      absl::StrAppend(&events,
                      EventOf("content_block_start",
                              absl::StrCat(Index(), ", \"content_block\": ", BlockJson())));
    }
    has_calls_ |= kind == Kind::kCall;
    if (event.kind == Kind::kCall) return events;
    if (!keeps_) return absl::StrCat(events, DeltaEvent(event));
    text_ += event.text;
    return "";
  }
  std::string Close() {
    if (!std::exchange(is_open_, false)) return "";
    if (keeps_) absl::StrAppend(&ended_, ended_.empty() ? "" : ", ", BlockJson());
    std::string event = EventOf("content_block_stop", Index());
    ++num_ended_;
    return event;
  }

  bool has_calls() const { return has_calls_; }
  // Those that have ended, as members of a list.
  const std::string& ended() const { return ended_; }

 private:
  void Open(Kind kind, absl::string_view name, ToolFormat format) {
    is_open_ = true;
    kind_ = kind;
    text_.clear();
    if (kind != Kind::kCall) return;
    call_ = absl::StrCat("\"id\": ", JsonString(NewToolUseId(format)),
                         ", \"name\": ", JsonString(name));
  }
  std::string Index() const { return absl::StrCat(", \"index\": ", num_ended_); }
  std::string BlockJson() const {
    switch (kind_) {
      case Kind::kReasoning:
        return absl::StrCat("{\"type\": \"thinking\", \"thinking\": ", JsonString(text_),
                            ", \"signature\": \"\"}");
      case Kind::kContent:
        return absl::StrCat("{\"type\": \"text\", \"text\": ", JsonString(text_), "}");
      default:
        // The answer may have ended within the arguments, or the model has written something else.
        return absl::StrCat("{\"type\": \"tool_use\", ", call_,
                            ", \"input\": ", text_.starts_with('{') && IsJson(text_) ? text_ : "{}",
                            "}");
    }
  }
  std::string DeltaEvent(const AnswerEvent& event) const {
    const char* members = event.kind == Kind::kReasoning ? "thinking_delta\", \"thinking"
                          : event.kind == Kind::kContent ? "text_delta\", \"text"
                                                         : "input_json_delta\", \"partial_json";
    return EventOf("content_block_delta",
                   absl::StrCat(Index(), ", \"delta\": {\"type\": \"", members,
                                "\": ", JsonString(event.text), "}"));
  }

  const bool keeps_;
  bool is_open_ = false;
  bool has_calls_ = false;
  Kind kind_ = Kind::kContent;  // of the open block; of a call's arguments kCall, too
  std::string text_;            // of it, or arguments
  std::string call_;            // its id and name
  std::string ended_;
  int64_t num_ended_ = 0;
};

// An answer as Anthropic's message on one call: whole, or as its events.
class MessagesAnswer final : public AnswerWriter {
 public:
  // `answers` outlives the call.
  MessagesAnswer(HttpCallRef call, MessagesFormat format, const ModelAnswers* answers)
      : call_(std::move(call)), format_(std::move(format)), answers_(*answers) {
    if (format_.streams) call_->KeepAlive(StreamHead());
  }

  void TakePrompt(absl::Span<const TokenId> prompt) override {
    if (format_.answer.reasoning.is_none()) return;
    in_reasoning_ = format_.in_reasoning.value_or(answers_.BeginsInReasoning(prompt));
  }
  bool KeepsAnswer() const override { return !format_.streams; }
  size_t AnswerBytes(const AnswerPart& part) const override { return NumBytes(part, kJsonBytes); }

  void Write(AnswerPart part, const std::function<void()>& on_ready) override {
    std::string events = Take(part);
    if (!format_.streams || events.empty()) {
      on_ready();
      return;
    }
    if (!std::exchange(has_begun_, true)) call_->Begin(StreamHead());
    call_->Send(std::move(events), on_ready);
  }

  void End(const absl::Status& status, AccessEntry access) override {
    call_->SetAccess(std::move(access));
    ended_.Update(status);
    if (!ended_.ok()) {
      HttpAnswer answer = ErrorAnswer(ended_);
      answer.headers = WithRequestId(std::move(answer.headers));
      std::string event = absl::StrCat("event: error\ndata: ", answer.body, "\n\n");
      call_->EndWithError(std::move(answer), std::move(event), ended_.code());
    } else if (format_.streams) {
      call_->Finish(absl::StatusCode::kOk);
    } else {
      call_->Answer({.body = MessageJson(), .headers = WithRequestId(RequestIdHeader(format_.id))});
    }
  }

 private:
  // By the name that Anthropic's clients read, too.
  HeaderList WithRequestId(HeaderList headers) const {
    for (auto& [name, id] : RequestIdHeader(format_.id)) headers.emplace_back("request-id", id);
    return headers;
  }
  HttpAnswer StreamHead() const {
    HttpAnswer head = EventStreamHead(format_.id);
    head.headers = WithRequestId(std::move(head.headers));
    return head;
  }

  // The events of a stream.
  std::string Take(const AnswerPart& part) {
    if (const auto* started = std::get_if<Started>(&part)) return TakeStart(*started);
    if (const auto* delta = std::get_if<Delta>(&part)) return TakeText(delta->text);
    return TakeFinish(std::get<Finished>(part));
  }

  std::string TakeStart(const Started& started) {
    usage_.prompt_tokens = started.prompt_tokens;
    usage_.cached_tokens = started.cached_tokens;
    if (!format_.answer.finds_nothing()) {
      parser_ = std::make_unique<AnswerParser>(format_.answer, in_reasoning_);
    }
    return EventOf("message_start", absl::StrCat(", \"message\": ", MessageJson()));
  }

  std::string TakeText(const std::string& text) {
    if (parser_ != nullptr) return AddAll(parser_->Append(text));
    return text.empty() ? "" : blocks_.Add({Kind::kContent, text}, format_.answer.tools);
  }

  std::string AddAll(const std::vector<AnswerEvent>& found) {
    std::string events;
    for (const AnswerEvent& event : found) events += blocks_.Add(event, format_.answer.tools);
    return events;
  }

  std::string TakeFinish(const Finished& finished) {
    usage_ = finished.usage;
    std::string events = parser_ != nullptr ? AddAll(parser_->Finish()) : "";
    events += blocks_.Close();
    const auto* matched = std::get_if<std::string>(&finished.matched);
    if (finished.reason == FinishReason::kAbort) {
      ended_ = absl::CancelledError("an operator ended the request");
      return events;
    }
    stop_ =
        absl::StrCat("\"stop_reason\": \"",
                     finished.reason == FinishReason::kLength ? "max_tokens"
                     : matched != nullptr                     ? "stop_sequence"
                     : blocks_.has_calls()                    ? "tool_use"
                                                              : "end_turn",
                     "\", \"stop_sequence\": ", matched != nullptr ? JsonString(*matched) : "null");
    return absl::StrCat(
        events,
        EventOf("message_delta",
                absl::StrCat(", \"delta\": {", stop_, "}, \"usage\": ", UsageOfMessage(usage_))),
        EventOf("message_stop", ""));
  }

  // The message so far.
  std::string MessageJson() const {
    return absl::StrCat("{\"id\": ", JsonString(format_.id),
                        ", \"type\": \"message\", \"role\": \"assistant\", \"model\": ",
                        JsonString(format_.model), ", \"content\": [", blocks_.ended(), "], ",
                        stop_, ", \"usage\": ", UsageOfMessage(usage_), "}");
  }

  const HttpCallRef call_;
  const MessagesFormat format_;
  const ModelAnswers& answers_;
  std::unique_ptr<AnswerParser> parser_;  // null: all is text
  bool in_reasoning_ = false;             // the answer begins there
  bool has_begun_ = false;                // a stream
  MessageBlocks blocks_{!format_.streams};
  Usage usage_;
  std::string stop_ = "\"stop_reason\": null, \"stop_sequence\": null";
  absl::Status ended_;  // early
};

absl::Status Start(const ServingContext& context, const HttpCallRef& call, Caller caller,
                   const std::string& body) {
  ASSIGN_OR_RETURN(MessagesRequest request,
                   ParseMessages(body, *context.model, *context.answers, call->asked_id()));
  caller.is_id_of_call = request.format.id == call->asked_id();
  context.generate->Start(
      std::move(caller), std::move(request.asked),
      std::make_unique<MessagesAnswer>(call, std::move(request.format), context.answers));
  return absl::OkStatus();
}

absl::StatusOr<std::string> CountTokens(const ServingContext& context, const HttpCall& call,
                                        const std::string& body) {
  ASSIGN_OR_RETURN(const Prompt asked, ParseCountTokens(body));
  ASSIGN_OR_RETURN(const TokenizedPrompt prompt,
                   TokenizePrompt(asked, kMessagesNames, *context.encoder, call.token().get()));
  return absl::StrCat("{\"input_tokens\": ", prompt.ids.size(), "}");
}

}  // namespace

std::vector<HttpRoute> MessagesRoutes(const ServingContext& context) {
  return {GenerateRoute(
              "/v1/messages", context,
              [context](const HttpCallRef& call, const Caller& caller, const std::string& body) {
                return Start(context, call, caller, body);
              }),
          ConvertRoute("/v1/messages/count_tokens", context,
                       [context](const HttpCall& call, const std::string& body) {
                         return CountTokens(context, call, body);
                       })};
}

}  // namespace quire
