#include "server/request/generate/prompt_message.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "server/observe/log/json_text.h"
#include "server/request/field_error.h"
#include "server/request/limits.h"
#include "server/request/media_kinds.h"
#include "server/request/parameters.h"
#include "server/text/chat/json_values.h"

namespace quire {

namespace {

using jinja::Value;

// The value of a field that is JSON text. In the sum of nestings, which is bounded, the value is
// `outer_depth` deep.
absl::StatusOr<Value> ParseField(const std::string& field, const std::string& text,
                                 size_t outer_depth, JsonBudget* budget) {
  absl::StatusOr<Value> value = ParseJsonValue(text, budget, jinja::kMaxValueDepth - outer_depth);
  if (value.ok() || absl::IsCancelled(value.status())) return value;
  return InField(field, value.status());
}

// The same for an object, which may be left out.
absl::StatusOr<Value> ParseObject(const std::string& field, const std::string& text,
                                  size_t outer_depth, JsonBudget* budget) {
  if (text.empty()) return Value(std::make_shared<const jinja::Dict>());
  ASSIGN_OR_RETURN(Value value, ParseField(field, text, outer_depth, budget));
  if (value.dict() == nullptr) return InvalidField(field, "is not a JSON object");
  return value;
}

Value TextValue(const std::string& text) { return Value(jinja::Text(text, jinja::Origin::kUser)); }

// Templates write what a picture becomes wherever a part is of its type or has such a key.
absl::Status CheckParts(const std::string& field, const Value* content) {
  if (content == nullptr || content->list() == nullptr) return absl::OkStatus();
  const std::vector<Value>& parts = content->list()->items;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].dict() == nullptr) continue;
    for (const auto& [key, value] : parts[i].dict()->entries()) {
      if (key.text() == nullptr) continue;
      const bool is_type = key.text()->bytes() == "type" && value.text() != nullptr;
      const std::string name(is_type ? value.text()->bytes() : key.text()->bytes());
      const absl::string_view kind = MediaKindOf(name);
      if (kind.empty()) continue;
      return InvalidField(
          field, absl::StrCat("content[", i, "] has ", JsonString(name), "; ", WhyNoMedia(kind)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> ConvertMessage(const v1::Message& message, int index, JsonBudget* budget) {
  const std::string field = absl::StrCat("messages[", index, "]");
  if (message.role().empty()) {
    return InvalidField(field + ".role",
                        "is empty; use the template's roles, such as system, user or assistant");
  }
  jinja::Dict dict;
  dict.Set(TextValue("role"), TextValue(message.role()));
  if (message.has_content()) dict.Set(TextValue("content"), TextValue(message.content()));
  ASSIGN_OR_RETURN(const Value extra, ParseObject(field + ".extra_json", message.extra_json(),
                                                  /*outer_depth=*/1, budget));
  RETURN_IF_ERROR(
      CheckParts(field + ".extra_json", extra.dict()->Find(std::string_view("content"))));
  for (const auto& [key, value] : extra.dict()->entries()) dict.Set(key, value);
  return Value(std::make_shared<const jinja::Dict>(std::move(dict)));
}

void BeginAnswer(const v1::AnswerStart& start, PromptEncoder::Rendered* rendered) {
  std::vector<PromptSegment>& segments = rendered->segments;
  if (segments.empty() || !segments.back().from_template) segments.push_back({"", true});
  std::string& end = segments.back().text;
  const absl::string_view written = absl::StripTrailingAsciiWhitespace(end);
  const absl::string_view open = absl::StripTrailingAsciiWhitespace(start.reasoning_open());
  const bool reasons = !open.empty() && absl::EndsWith(written, open);
  if (reasons) absl::StrAppend(&end, "\n", start.reasoning_close(), "\n\n");
  end.append(start.text());
}

}  // namespace

TextPrompt ConvertText(const v1::Text& message) {
  TextPrompt prompt;
  prompt.text = message.text();
  if (message.has_add_special_tokens()) prompt.add_special_tokens = message.add_special_tokens();
  if (message.has_parse_special_tokens()) {
    prompt.parse_special_tokens = message.parse_special_tokens();
  }
  return prompt;
}

absl::Status CheckMessages(const v1::Messages& messages) {
  if (messages.messages().empty()) {
    return InvalidField("messages", "is empty; send at least one message");
  }
  if (static_cast<size_t>(messages.messages_size()) <= kMaxMessages) return absl::OkStatus();
  return InvalidField("messages", absl::StrCat("has ", messages.messages_size(),
                                               " entries; allowed are at most ", kMaxMessages));
}

absl::StatusOr<RenderInput> ConvertMessages(const v1::Messages& messages, Fuel* fuel) {
  RETURN_IF_ERROR(CheckMessages(messages));
  RenderInput input;
  input.fuel = fuel;
  input.max_text_bytes = std::min(
      jinja::kMaxTextBytes, kBaseRenderedBytes + kRenderedBytesPerByte * messages.ByteSizeLong());
  JsonBudget budget = {fuel};
  std::vector<Value> list;
  for (int i = 0; i < messages.messages_size(); ++i) {
    ASSIGN_OR_RETURN(Value message, ConvertMessage(messages.messages(i), i, &budget));
    list.push_back(std::move(message));
  }
  input.messages =
      Value(std::make_shared<const jinja::List>(jinja::ListKind::kList, std::move(list)));
  if (!messages.tools_json().empty()) {
    ASSIGN_OR_RETURN(input.tools, ParseField("messages.tools_json", messages.tools_json(),
                                             /*outer_depth=*/0, &budget));
    if (input.tools.list() == nullptr) {
      return InvalidField("messages.tools_json", "is not a JSON array");
    }
  }
  ASSIGN_OR_RETURN(input.kwargs,
                   ParseObject("messages.template_kwargs_json", messages.template_kwargs_json(),
                               /*outer_depth=*/0, &budget));
  input.add_generation_prompt =
      messages.has_add_generation_prompt() ? messages.add_generation_prompt() : true;
  input.continue_final_message = messages.continue_final_message();
  if (input.continue_final_message && input.add_generation_prompt) {
    return InvalidField("messages.continue_final_message",
                        "goes with add_generation_prompt: false, as no new message begins");
  }
  if (messages.has_answer_start() && !input.add_generation_prompt) {
    return InvalidField("messages.answer_start",
                        "goes with add_generation_prompt: true, as a new answer begins");
  }
  input.now = absl::ToTimeT(WallNow());
  return input;
}

absl::StatusOr<PromptEncoder::Rendered> RenderMessages(const v1::Messages& messages,
                                                       const PromptEncoder& encoder, Fuel* fuel) {
  RETURN_IF_ERROR(encoder.CheckTakesMessages());
  ASSIGN_OR_RETURN(RenderInput input, ConvertMessages(messages, fuel));
  ASSIGN_OR_RETURN(PromptEncoder::Rendered rendered, encoder.Render(std::move(input)));
  if (messages.has_answer_start()) BeginAnswer(messages.answer_start(), &rendered);
  return rendered;
}

absl::StatusOr<std::vector<TokenId>> EncodePrompt(const v1::GenerateRequest& request,
                                                  const PromptEncoder& encoder,
                                                  const ModelFacts& model, Fuel* fuel) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      if (request.text().text().empty()) {
        return InvalidField("text", "is empty; send at least one character");
      }
      return encoder.EncodeText(ConvertText(request.text()), fuel);
    case v1::GenerateRequest::kTokenIds:
      return ConvertTokenIds(request, model);
    case v1::GenerateRequest::kMessages: {
      ASSIGN_OR_RETURN(const PromptEncoder::Rendered rendered,
                       RenderMessages(request.messages(), encoder, fuel));
      return encoder.EncodeRendered(rendered, fuel);
    }
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return InvalidField("prompt", "set one of text, token_ids and messages");
}

}  // namespace quire
