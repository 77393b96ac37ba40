#include "server/openai/chat_messages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

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

void FillMessage(FieldReader& fields, const JsonTree& message, size_t index, v1::Message* out) {
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
    } else if (value.is_text()) {
      out->set_content(value.text);
    } else if (!value.is_list() || !JoinParts(value, out->mutable_content())) {
      fields.Fail(field + ".content", "is neither a text nor a list of parts of type text");
    }
  }
  if (!extra.items.empty()) out->set_extra_json(ToJson(extra));
}

}  // namespace

void FillMessages(FieldReader& fields, v1::Messages* messages) {
  const JsonTree* list = fields.Find("messages");
  if (list == nullptr || !list->is_list()) {
    fields.Fail("messages", list == nullptr ? "is missing" : "is not a list");
    return;
  }
  for (size_t i = 0; i < list->items.size(); ++i) {
    FillMessage(fields, list->items[i], i, messages->add_messages());
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
  const JsonTree* choice = fields.Find("tool_choice");
  const bool is_none = choice != nullptr && choice->text == "none";
  const JsonTree* tools = fields.Find("tools");
  if (tools != nullptr && !(tools->is_list() && tools->items.empty()) && !is_none) {
    fields.Fail(
        "tools",
        "this server does not read tool calls yet; leave them out, or say tool_choice none");
  }
  for (const char* key : {"functions", "function_call", "audio", "prediction", "documents",
                          "chat_template", "web_search_options", "mm_processor_kwargs"}) {
    fields.Refuse(key, "is not supported by this server; leave it out");
  }
}

}  // namespace quire
