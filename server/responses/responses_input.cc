#include "server/responses/responses_input.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/openai/chat_messages.h"

namespace quire {

namespace {

// The texts of a reasoning's parts, one below the other; false for any other part.
bool JoinTexts(const JsonTree& content, std::string* joined) {
  if (content.is_text()) {
    *joined = content.text;
    return true;
  }
  for (size_t i = 0; i < content.items.size(); ++i) {
    const JsonTree* type = content.items[i].Find("type");
    const JsonTree* text = content.items[i].Find("text");
    const bool is_text = type != nullptr && text != nullptr && text->is_text() &&
                         (type->text == "reasoning_text" || type->text == "text");
    if (!is_text) return false;
    absl::StrAppend(joined, i == 0 ? "" : "\n", text->text);
  }
  return content.is_list();
}

class InputReader {
 public:
  InputReader(FieldReader* fields, v1::Messages* messages)
      : fields_(*fields), messages_(*messages) {}

  void AddItem(const JsonTree& item, const std::string& field) {
    const JsonTree* type = item.Find("type");
    const std::string kind = type != nullptr ? type->text : "message";
    if (!item.is_object()) {
      fields_.Fail(field, "is not an object");
    } else if (kind == "message") {
      AddMessage(item, field);
    } else if (kind == "reasoning") {
      AddReasoning(item, field);
    } else {
      fields_.Fail(field + ".type",
                   "this server reads items of type message and reasoning; leave out the others");
    }
  }

 private:
  void AddMessage(const JsonTree& item, const std::string& field) {
    const JsonTree* role = item.Find("role");
    const JsonTree* content = item.Find("content");
    if (role == nullptr || !role->is_text()) {
      fields_.Fail(field + ".role", "is missing");
      return;
    }
    v1::Message* message = messages_.add_messages();
    message->set_role(role->text);
    JsonTree extra = {.kind = JsonTree::Kind::kObject};
    if (content == nullptr || content->is_null()) {
      fields_.Fail(field + ".content", "is missing");
    } else {
      FillContent(fields_, field + ".content", *content, message, &extra);
    }
    const std::string reasoning = std::exchange(reasoning_, "");
    if (!reasoning.empty() && message->role() == "assistant") {
      extra.keys.emplace_back("reasoning_content");
      extra.items.push_back({.kind = JsonTree::Kind::kText, .text = reasoning});
    }
    if (extra.items.empty()) return;
    message->set_extra_json(ToJson(extra));
  }

  // It belongs to the assistant's message that follows; of many models the template drops it.
  void AddReasoning(const JsonTree& item, const std::string& field) {
    reasoning_.clear();
    const JsonTree* content = item.Find("content");
    if (content != nullptr && !JoinTexts(*content, &reasoning_)) {
      fields_.Fail(field + ".content", "is not a list of parts of type reasoning_text");
    }
  }

  FieldReader& fields_;
  v1::Messages& messages_;
  std::string reasoning_;  // before the next message
};

}  // namespace

void FillInput(FieldReader& fields, v1::Messages* messages) {
  if (auto instructions = fields.Text("instructions")) {
    v1::Message* message = messages->add_messages();
    message->set_role("system");
    message->set_content(*std::move(instructions));
  }
  if (const JsonTree* kwargs = fields.Find("chat_template_kwargs")) {
    messages->set_template_kwargs_json(ToJson(*kwargs));
  }
  const JsonTree* input = fields.Find("input");
  if (input == nullptr) {
    fields.Fail("input", "is missing");
  } else if (input->is_text()) {
    v1::Message* message = messages->add_messages();
    message->set_role("user");
    message->set_content(input->text);
  } else if (!input->is_list() || input->items.empty()) {
    fields.Fail("input", "is neither a text nor a list of items");
  } else {
    InputReader reader(&fields, messages);
    for (size_t i = 0; i < input->items.size(); ++i) {
      reader.AddItem(input->items[i], absl::StrCat("input[", i, "]"));
    }
  }
}

}  // namespace quire
