#include "server/surfaces/openai/chat_messages.h"

#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/observe/log/json_text.h"
#include "server/request/media_kinds.h"
#include "server/surfaces/openai/chat_tools.h"
#include "server/surfaces/openai/template_kwargs.h"

namespace quire {

namespace {

JsonTree TextTree(std::string text) {
  return {.kind = JsonTree::Kind::kText, .text = std::move(text)};
}

// {"type": "text", "text": ...}
JsonTree PartTree(const std::string& type, const std::string& said) {
  return {.kind = JsonTree::Kind::kObject,
          .items = {TextTree(type), TextTree(said)},
          .keys = {"type", type}};
}

// What a part says, under the name that its type has for it; null where it is of another type.
// `*type` is what templates call it.
const JsonTree* SaidBy(const JsonTree& part, const std::string& sent_type, std::string* type) {
  for (const auto& [sent, key, known] :
       {std::tuple("text", "text", "text"), std::tuple("input_text", "text", "text"),
        std::tuple("output_text", "text", "text"), std::tuple("refusal", "refusal", "text"),
        std::tuple("thinking", "thinking", "thinking")}) {
    if (sent_type != sent) continue;
    *type = known;
    for (size_t i = 0; i < part.keys.size(); ++i) {
      if (part.keys[i] == key) return &part.items[i];
    }
  }
  return nullptr;
}

void AddPart(FieldReader& fields, const std::string& field, const JsonTree& part, JsonTree* parts,
             std::string* joined) {
  const JsonTree* sent_type = part.Find("type");
  std::string type = "text";
  const JsonTree* said = &part;
  if (!part.is_text()) {
    if (sent_type == nullptr || !sent_type->is_text()) {
      fields.Fail(field, "is neither a text nor an object with a type");
      return;
    }
    said = SaidBy(part, sent_type->text, &type);
  }
  if (said != nullptr && said->is_null()) return;  // vLLM leaves it out, too
  if (said == nullptr || !said->is_text()) {
    const absl::string_view kind = MediaKindOf(sent_type->text);
    const std::string name = JsonString(sent_type->text);
    fields.Fail(field, kind.empty()
                           ? absl::StrCat("is no part of type text with a text: its type is ", name)
                           : absl::StrCat("is of type ", name, "; ", WhyNoMedia(kind)));
    return;
  }
  absl::StrAppend(joined, parts->items.empty() ? "" : "\n", said->text);
  parts->items.push_back(PartTree(type, said->text));
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
    if (key == "content") {
      FillContent(fields, field + ".content", value, out, &extra);
    } else if (key != "role" && !value.is_null()) {
      extra.keys.push_back(key);
      extra.items.push_back(value);
      if (key == "tool_calls") DecodeArguments(&extra.items.back(), num_values);
    }
  }
  AddReasoningAlias(&extra);
  if (!extra.items.empty()) out->set_extra_json(ToJson(extra));
}

}  // namespace

void FillContent(FieldReader& fields, const std::string& field, const JsonTree& content,
                 v1::Message* message, JsonTree* extra) {
  if (content.is_text()) {
    message->set_content(content.text);
    return;
  }
  JsonTree form = {.kind = content.kind};
  if (content.is_list()) {
    for (size_t i = 0; i < content.items.size(); ++i) {
      AddPart(fields, absl::StrCat(field, "[", i, "]"), content.items[i], &form,
              message->mutable_content());
    }
  } else if (!content.is_null()) {
    fields.Fail(field, "is neither a text nor a list of parts of type text");
  }
  extra->keys.emplace_back("content");
  extra->items.push_back(std::move(form));
}

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
  FillTemplateKwargs(fields, fields.Text("reasoning_effort"), messages);
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
