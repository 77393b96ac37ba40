#include "server/generate/prompt_message.h"

#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"
#include "server/request/limits.h"
#include "server/request/parameters.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

Json ParseJson(const std::string& text) {
  return Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
}

absl::StatusOr<Json> ParseObject(const std::string& field, const std::string& text) {
  Json json = text.empty() ? Json::object() : ParseJson(text);
  if (json.is_object()) return json;
  return InvalidField(field, "is not a JSON object");
}

absl::StatusOr<Json> ConvertMessage(const v1::Message& message, int index) {
  const std::string field = absl::StrCat("messages[", index, "]");
  if (message.role().empty()) {
    return InvalidField(field + ".role",
                        "is empty; use the template's roles, such as system, user or assistant");
  }
  Json json = {{"role", message.role()}, {"content", message.content()}};
  ASSIGN_OR_RETURN(Json extra, ParseObject(field + ".extra_json", message.extra_json()));
  for (auto& [key, value] : extra.items()) json[key] = std::move(value);
  return json;
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

absl::StatusOr<RenderInput> ConvertMessages(const v1::Messages& messages) {
  if (messages.messages().empty()) {
    return InvalidField("messages", "is empty; send at least one message");
  }
  if (static_cast<size_t>(messages.messages_size()) > kMaxMessages) {
    return InvalidField("messages", absl::StrCat("has ", messages.messages_size(),
                                                 " entries; allowed are at most ", kMaxMessages));
  }
  RenderInput input;
  for (int i = 0; i < messages.messages_size(); ++i) {
    ASSIGN_OR_RETURN(Json message, ConvertMessage(messages.messages(i), i));
    input.messages.push_back(std::move(message));
  }
  if (!messages.tools_json().empty()) {
    input.tools = ParseJson(messages.tools_json());
    if (!input.tools.is_array()) {
      return InvalidField("messages.tools_json", "is not a JSON array");
    }
  }
  ASSIGN_OR_RETURN(input.kwargs,
                   ParseObject("messages.template_kwargs_json", messages.template_kwargs_json()));
  input.add_generation_prompt =
      messages.has_add_generation_prompt() ? messages.add_generation_prompt() : true;
  input.now = std::time(nullptr);
  return input;
}

absl::StatusOr<std::vector<TokenId>> EncodePrompt(const v1::GenerateRequest& request,
                                                  const PromptEncoder& encoder,
                                                  const ModelFacts& model) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      if (request.text().text().empty()) {
        return InvalidField("text", "is empty; send at least one character");
      }
      return encoder.EncodeText(ConvertText(request.text()));
    case v1::GenerateRequest::kTokenIds:
      return ConvertTokenIds(request.token_ids(), model);
    case v1::GenerateRequest::kMessages: {
      RETURN_IF_ERROR(encoder.CheckTakesMessages());
      ASSIGN_OR_RETURN(RenderInput input, ConvertMessages(request.messages()));
      ASSIGN_OR_RETURN(const PromptEncoder::Rendered rendered, encoder.Render(std::move(input)));
      return encoder.EncodeRendered(rendered);
    }
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return InvalidField("prompt", "set one of text, token_ids and messages");
}

}  // namespace quire
