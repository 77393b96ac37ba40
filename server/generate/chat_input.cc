#include "server/generate/chat_input.h"

#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/request/limits.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

Json ParseJson(const std::string& text) {
  return Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
}

absl::StatusOr<Json> ParseObject(const std::string& field, const std::string& text) {
  Json json = text.empty() ? Json::object() : ParseJson(text);
  if (json.is_object()) return json;
  return absl::InvalidArgumentError(absl::StrCat(field, ": is not a JSON object"));
}

absl::StatusOr<Json> ConvertMessage(const v1::Message& message, int index) {
  const std::string field = absl::StrCat("messages[", index, "]");
  if (message.role().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".role: is empty; use the template's roles, such as system, user or assistant"));
  }
  Json json = {{"role", message.role()}, {"content", message.content()}};
  ASSIGN_OR_RETURN(Json extra, ParseObject(field + ".extra_json", message.extra_json()));
  for (auto& [key, value] : extra.items()) json[key] = std::move(value);
  return json;
}

}  // namespace

absl::StatusOr<RenderInput> ConvertMessages(const v1::Messages& messages) {
  if (messages.messages().empty()) {
    return absl::InvalidArgumentError("messages: is empty; send at least one message");
  }
  if (static_cast<size_t>(messages.messages_size()) > kMaxMessages) {
    return absl::InvalidArgumentError(absl::StrCat("messages: has ", messages.messages_size(),
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
      return absl::InvalidArgumentError("messages.tools_json: is not a JSON array");
    }
  }
  ASSIGN_OR_RETURN(input.kwargs,
                   ParseObject("messages.template_kwargs_json", messages.template_kwargs_json()));
  input.add_generation_prompt =
      messages.has_add_generation_prompt() ? messages.add_generation_prompt() : true;
  input.now = std::time(nullptr);
  return input;
}

}  // namespace quire
