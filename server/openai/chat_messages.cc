#include "server/openai/chat_messages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/openai/chat_tools.h"

namespace quire {

namespace {

// The parts of a content, one below the other, as vLLM gives them to templates that take a text.
bool JoinParts(const JsonTree& parts, std::string* content) {
  for (size_t i = 0; i < parts.items.size(); ++i) {
    const JsonTree* type = parts.items[i].Find("type");
    const JsonTree* text = parts.items[i].Find("text");
    const bool is_text = type != nullptr && text != nullptr && text->is_text() &&
                         (type->text == "text" || type->text == "input_text");
    if (!is_text) return false;
    absl::StrAppend(content, i == 0 ? "" : "\n", text->text);
  }
  return true;
}

// Clients send reasoning back under either name, templates read one of them.
void AddReasoningAlias(JsonTree* message) {
  for (const auto& [key, alias] :
       {std::pair("reasoning", "reasoning_content"), std::pair("reasoning_content", "reasoning")}) {
    const JsonTree* reasoning = message->Find(key);
    if (reasoning == nullptr || message->Find(alias) != nullptr) continue;
    JsonTree copy = *reasoning;
    message->keys.push_back(alias);
    message->items.push_back(std::move(copy));
  }
}

void FillMessage(FieldReader& fields, const JsonTree& message, size_t index, size_t* num_values,
                 v1::Message* out) {
  const std::string field = absl::StrCat("messages[", index, "]");
  const JsonTree* role = message.Find("role");
  if (!message.is_object() || role == nullptr || !role->is_text()) {
    fields.Fail(field + ".role", "is missing");
    return;
  }
  out->set_role(role->text);
  JsonTree extra = {.kind = JsonTree::Kind::kObject};
  for (size_t i = 0; i < message.items.size(); ++i) {
    const std::string& key = message.keys[i];
    const JsonTree& value = message.items[i];
    if (key == "role" || value.is_null()) continue;
    if (key != "content") {
      extra.keys.push_back(key);
      extra.items.push_back(value);
      if (key == "tool_calls") DecodeArguments(&extra.items.back(), num_values);
    } else if (value.is_text()) {
      out->set_content(value.text);
    } else if (!value.is_list() || !JoinParts(value, out->mutable_content())) {
      fields.Fail(field + ".content", "is neither a text nor a list of parts of type text");
    }
  }
  AddReasoningAlias(&extra);
  if (!extra.items.empty()) out->set_extra_json(ToJson(extra));
}

}  // namespace

void FillMessages(FieldReader& fields, v1::Messages* messages) {
  const JsonTree* list = fields.Find("messages");
  if (list == nullptr || !list->is_list()) {
    fields.Fail("messages", list == nullptr ? "is missing" : "is not a list");
    return;
  }
  size_t num_values = 0;  // of JSON within texts
  for (size_t i = 0; i < list->items.size(); ++i) {
    FillMessage(fields, list->items[i], i, &num_values, messages->add_messages());
  }
  const bool continues = fields.Bool("continue_final_message").value_or(false);
  messages->set_continue_final_message(continues);
  if (const auto adds = fields.Bool("add_generation_prompt")) {
    messages->set_add_generation_prompt(*adds);
  }
  if (const JsonTree* kwargs = fields.Find("chat_template_kwargs")) {
    messages->set_template_kwargs_json(ToJson(*kwargs));
  }
}

void RefuseAbsentOfChats(FieldReader& fields) {
  for (const char* key : {"functions", "function_call"}) {
    fields.Refuse(key, "is not supported by this server; use tools");
  }
  for (const char* key : {"audio", "prediction", "documents", "chat_template", "web_search_options",
                          "mm_processor_kwargs"}) {
    fields.Refuse(key, "is not supported by this server; leave it out");
  }
}

}  // namespace quire
