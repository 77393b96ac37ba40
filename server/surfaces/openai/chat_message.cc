#include "server/surfaces/openai/chat_message.h"

#include "absl/strings/str_cat.h"
#include "server/request/random_id.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

// vLLM's name for it is now the first, clients of before and of others read the second.
std::string ReasoningJson(absl::string_view text) {
  return absl::StrCat("\"reasoning\": ", text, ", \"reasoning_content\": ", text);
}

}  // namespace

// Mistral's templates take no other ids than of nine letters and digits.
std::string NewCallId(ToolFormat format) {
  const std::string id = RandomId();
  return format == ToolFormat::kMistral ? id.substr(0, 9) : absl::StrCat("call_", id);
}

std::vector<std::string> ChatMessage::Add(const std::vector<AnswerEvent>& events) {
  std::vector<std::string> deltas;
  for (const AnswerEvent& event : events) {
    if (event.kind == AnswerEvent::Kind::kReasoning && !options_.shows_reasoning) continue;
    if (event.kind == AnswerEvent::Kind::kCall) ++num_calls_;
    if (options_.streams) {
      deltas.push_back(DeltaOf(event));
    } else {
      Keep(event);
    }
  }
  return deltas;
}

std::string ChatMessage::CallJson(std::string_view name) const {
  return absl::StrCat("\"id\": ", JsonString(NewCallId(options_.answer.tools)),
                      ", \"type\": \"function\", \"function\": {\"name\": ",
                      JsonString(std::string(name)), ", \"arguments\": ");
}

std::string ChatMessage::DeltaOf(const AnswerEvent& event) {
  const auto of_call = [this](absl::string_view members) {
    return absl::StrCat("{\"tool_calls\": [{\"index\": ", num_calls_ - 1, ", ", members, "}]}");
  };
  switch (event.kind) {
    case AnswerEvent::Kind::kReasoning:
      return absl::StrCat("{", ReasoningJson(JsonString(event.text)), "}");
    case AnswerEvent::Kind::kContent:
      break;
    case AnswerEvent::Kind::kCall:
      return of_call(absl::StrCat(CallJson(event.text), "\"\"}"));
    case AnswerEvent::Kind::kArguments:
      return of_call(absl::StrCat("\"function\": {\"arguments\": ", JsonString(event.text), "}"));
  }
  return absl::StrCat("{\"content\": ", JsonString(event.text), "}");
}

void ChatMessage::Keep(const AnswerEvent& event) {
  switch (event.kind) {
    case AnswerEvent::Kind::kReasoning:
      reasoning_.append(event.text);
      return;
    case AnswerEvent::Kind::kContent:
      content_.append(event.text);
      return;
    case AnswerEvent::Kind::kCall:
      calls_.push_back({CallJson(event.text), ""});
      return;
    case AnswerEvent::Kind::kArguments:
      calls_.back().arguments.append(event.text);
      return;
  }
}

std::string ChatMessage::ToJson() const {
  const bool has_more = !calls_.empty() || !reasoning_.empty();
  std::string json = absl::StrCat("{\"role\": \"assistant\", \"content\": ",
                                  content_.empty() && has_more ? "null" : JsonString(content_),
                                  ", \"refusal\": null");
  if (!options_.answer.reasoning.is_none()) {
    absl::StrAppend(&json, ", ",
                    ReasoningJson(reasoning_.empty() ? "null" : JsonString(reasoning_)));
  }
  for (size_t i = 0; i < calls_.size(); ++i) {
    absl::StrAppend(&json, i == 0 ? ", \"tool_calls\": [{" : "}}, {", calls_[i].beginning,
                    JsonString(calls_[i].arguments));
  }
  return absl::StrCat(json, calls_.empty() ? "}" : "}}]}");
}

}  // namespace quire
