#include "server/surfaces/openai/chat_messages.h"

#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/request/media_kinds.h"
#include "server/surfaces/openai/chat_tools.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

// {"type": "text", "text": ...}
JsonTree PartTree(const std::string& type, const std::string& said) {
  JsonTree part = NewObject();
  AddMember(&part, "type", TextTree(type));
  AddMember(&part, type, TextTree(said));
  return part;
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
    for (size_t i = part.keys.size(); i-- > 0;) {  // null, too
      if (part.keys[i] == key) return &part.items[i];
    }
  }
  return nullptr;
}

JsonTree MessageOf(FieldReader& fields, const JsonTree& sent, const std::string& field,
                   size_t* num_values_left) {
  const JsonTree* role = sent.Find("role");
  JsonTree message = NewObject();
  if (!sent.is_object() || role == nullptr || !role->is_text() || role->text.empty()) {
    fields.Fail(field + ".role", "is missing");
    return message;
  }
  AddMember(&message, "role", *role);
  for (size_t i = 0; i < sent.items.size(); ++i) {
    const std::string& key = sent.keys[i];
    const JsonTree& value = sent.items[i];
    if (key == "content") {
      AddMember(&message, key, ContentOf(fields, field + ".content", value));
    } else if (key != "role" && !value.is_null()) {
      AddMember(&message, key, value);
      if (key == "tool_calls") DecodeArguments(&message.items.back(), num_values_left);
    }
  }
  return message;
}

}  // namespace

JsonTree NewMessage(std::string role, JsonTree content) {
  JsonTree message = NewObject();
  AddMember(&message, "role", TextTree(std::move(role)));
  AddMember(&message, "content", std::move(content));
  return message;
}

JsonTree NewCall(std::string id, std::string name, JsonTree arguments) {
  JsonTree function = NewObject();
  AddMember(&function, "name", TextTree(std::move(name)));
  AddMember(&function, "arguments", std::move(arguments));
  JsonTree call = NewObject();
  AddMember(&call, "id", TextTree(std::move(id)));
  AddMember(&call, "type", TextTree("function"));
  AddMember(&call, "function", std::move(function));
  return call;
}

void AddPart(FieldReader& fields, const std::string& field, const JsonTree& part, JsonTree* parts) {
  const JsonTree* sent_type = part.Find("type");
  std::string type = part.is_text() ? "text" : "";
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
    fields.Fail(field, !type.empty()  ? absl::StrCat("is of type ", name, " without a text")
                       : kind.empty() ? absl::StrCat("is no part of type text: its type is ", name)
                                      : absl::StrCat("is of type ", name, "; ", WhyNoMedia(kind)));
    return;
  }
  parts->items.push_back(PartTree(type, said->text));
}

JsonTree ContentOf(FieldReader& fields, const std::string& field, const JsonTree& content) {
  if (content.is_text() || content.is_null()) return content;
  JsonTree parts = NewList();
  if (!content.is_list()) {
    fields.Fail(field, "is neither a text nor a list of parts of type text");
    return parts;
  }
  for (size_t i = 0; i < content.items.size(); ++i) {
    AddPart(fields, absl::StrCat(field, "[", i, "]"), content.items[i], &parts);
  }
  return parts;
}

std::string TextOfContent(const JsonTree& message) {
  const JsonTree* content = message.Find("content");
  if (content == nullptr) return "";
  std::string text = content->text;
  for (const JsonTree& part : content->items) {
    // As PartTree has them: the type, then what it says.
    absl::StrAppend(&text, &part == content->items.data() ? "" : "\n", part.items.back().text);
  }
  return text;
}

void FillTemplateKwargs(FieldReader& fields, const std::optional<std::string>& effort,
                        ChatPrompt* chat) {
  constexpr char kKwargs[] = "chat_template_kwargs";
  chat->template_kwargs = NewObject();
  if (const JsonTree* sent = fields.Find(kKwargs)) chat->template_kwargs = *sent;
  if (!chat->template_kwargs.is_object()) {
    fields.Fail(kKwargs, "is not a JSON object");
  } else if (effort.has_value()) {
    AddMember(&chat->template_kwargs, "reasoning_effort", TextTree(*effort));
  }
}

void FillMessages(FieldReader& fields, ChatPrompt* chat) {
  const JsonTree* list = fields.Find("messages");
  if (list == nullptr || !list->is_list()) {
    fields.Fail("messages", list == nullptr ? "is missing" : "is not a list");
    return;
  }
  size_t num_values_left = kMaxJsonValues;  // of JSON within texts
  for (size_t i = 0; i < list->items.size(); ++i) {
    chat->messages.push_back(
        MessageOf(fields, list->items[i], absl::StrCat("messages[", i, "]"), &num_values_left));
  }
  chat->continue_final_message = fields.Bool("continue_final_message").value_or(false);
  chat->add_generation_prompt = fields.Bool("add_generation_prompt").value_or(true);
  FillTemplateKwargs(fields, fields.Text("reasoning_effort"), chat);
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
