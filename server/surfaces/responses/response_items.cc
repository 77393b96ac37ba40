#include "server/surfaces/responses/response_items.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/request/random_id.h"
#include "server/surfaces/openai/chat_message.h"
#include "server/text/json_text.h"

namespace quire {

using Kind = AnswerEvent::Kind;

std::string ResponseItems::Event(absl::string_view type, absl::string_view members) {
  return absl::StrCat("event: ", type, "\ndata: {\"type\": \"", type,
                      "\", \"sequence_number\": ", num_events_++, ", ", members, "}\n\n");
}

std::string ResponseItems::Add(Kind kind, absl::string_view text, const LogprobJson& logprobs) {
  if (kind == Kind::kCall) return Begin(kind, text);
  std::string events;
  const bool goes_on =
      item_.has_value() && item_->kind == (kind == Kind::kArguments ? Kind::kCall : kind);
  if (!goes_on) events = Begin(kind, "");
  absl::StrAppend(&item_->text, text);
  item_->logprobs.Add(logprobs);
  if (format_.streams) events += TextEvent("delta", "delta", text, logprobs);
  return events;
}

std::string ResponseItems::Begin(Kind kind, absl::string_view name) {
  std::string events = End("completed");
  const absl::string_view prefix = kind == Kind::kContent ? "msg_"
                                   : kind == Kind::kCall  ? "fc_"
                                                          : "rs_";
  item_ = Item{.kind = kind, .id = absl::StrCat(prefix, RandomId())};
  if (kind == Kind::kCall) {
    const auto found = format_.namespaced.find(name);
    const bool is_found = found != format_.namespaced.end();
    item_->members = absl::StrCat(
        "\"call_id\": \"", NewCallId(format_.answer.tools),
        "\", \"name\": ", JsonString(is_found ? found->second.name : name),
        is_found ? absl::StrCat(", \"namespace\": ", JsonString(found->second.name_space)) : "");
  }
  if (!format_.streams) return "";
  events += ItemEvent("added", ItemJson("in_progress"));
  if (kind != Kind::kCall) events += PartEvent("added", "", {});
  return events;
}

std::string ResponseItems::End(absl::string_view status) {
  if (!item_.has_value()) return "";
  const std::string json = ItemJson(status);
  std::string events;
  if (format_.streams) {
    const bool is_call = item_->kind == Kind::kCall;
    events = TextEvent("done", is_call ? "arguments" : "text", item_->text, item_->logprobs);
    if (!is_call) events += PartEvent("done", item_->text, item_->logprobs);
    events += ItemEvent("done", json);
  }
  absl::StrAppend(&ended_, ended_.empty() ? "" : ", ", json);
  ++num_ended_;
  item_.reset();
  return events;
}

std::string ResponseItems::Finish(absl::string_view status) {
  std::string events;
  if (!item_.has_value() && num_ended_ == 0) events = BeginMessage();
  return events + End(status);
}

absl::string_view ResponseItems::TextType() const {
  switch (item_->kind) {
    case Kind::kReasoning:
      return "response.reasoning_text.";
    case Kind::kContent:
      return "response.output_text.";
    case Kind::kCall:
    case Kind::kArguments:
      break;
  }
  return "response.function_call_arguments.";
}

std::string ResponseItems::Place() const {
  return absl::StrCat("\"item_id\": \"", item_->id, "\", \"output_index\": ", num_ended_,
                      item_->kind == Kind::kCall ? "" : ", \"content_index\": 0");
}

std::string ResponseItems::TextEvent(absl::string_view suffix, absl::string_view key,
                                     absl::string_view text, const LogprobJson& logprobs) {
  return Event(absl::StrCat(TextType(), suffix),
               absl::StrCat(Place(), ", \"", key, "\": ", JsonString(text),
                            item_->kind == Kind::kContent
                                ? absl::StrCat(", \"logprobs\": ", logprobs.ContentList())
                                : ""));
}

std::string ResponseItems::PartEvent(absl::string_view suffix, absl::string_view text,
                                     const LogprobJson& logprobs) {
  return Event(absl::StrCat("response.content_part.", suffix),
               absl::StrCat(Place(), ", \"part\": ", Part(text, logprobs)));
}

std::string ResponseItems::ItemEvent(absl::string_view suffix, absl::string_view json) {
  return Event(absl::StrCat("response.output_item.", suffix),
               absl::StrCat("\"output_index\": ", num_ended_, ", \"item\": ", json));
}

std::string ResponseItems::Part(absl::string_view text, const LogprobJson& logprobs) const {
  if (item_->kind == Kind::kReasoning) {
    return absl::StrCat("{\"type\": \"reasoning_text\", \"text\": ", JsonString(text), "}");
  }
  return absl::StrCat("{\"type\": \"output_text\", \"text\": ", JsonString(text),
                      ", \"annotations\": [], \"logprobs\": ", logprobs.ContentList(), "}");
}

std::string ResponseItems::ItemJson(absl::string_view status) const {
  const bool has_ended = status != "in_progress";
  std::string json = absl::StrCat("{\"id\": \"", item_->id, "\", \"status\": \"", status, "\", ");
  if (item_->kind == Kind::kCall) {
    return absl::StrCat(json, "\"type\": \"function_call\", ", item_->members,
                        ", \"arguments\": ", JsonString(item_->text), "}");
  }
  absl::StrAppend(&json, item_->kind == Kind::kReasoning
                             ? "\"type\": \"reasoning\", \"summary\": [], "
                               "\"encrypted_content\": null, "
                             : "\"type\": \"message\", \"role\": \"assistant\", ");
  return absl::StrCat(json, "\"content\": [", has_ended ? Part(item_->text, item_->logprobs) : "",
                      "]}");
}

}  // namespace quire
