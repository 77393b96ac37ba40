#include "server/surfaces/responses/responses_input.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/surfaces/openai/chat_messages.h"
#include "server/surfaces/openai/chat_tools.h"

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
  InputReader(FieldReader* fields, std::vector<JsonTree>* messages)
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
    } else if (kind == "function_call") {
      AddCall(item, field);
    } else if (kind == "function_call_output") {
      AddOutput(item, field);
    } else {
      fields_.Fail(field + ".type",
                   "this server reads items of type message, reasoning, function_call and "
                   "function_call_output; leave out the others");
    }
  }

  // After the last item.
  void Close() {
    if (calls_.items.empty()) return;
    DecodeArguments(&calls_, &num_values_left_);
    AddMember(&messages_.back(), "tool_calls", std::exchange(calls_, NewList()));
  }

 private:
  void AddMessage(const JsonTree& item, const std::string& field) {
    const JsonTree* role = item.Find("role");
    const JsonTree* content = item.Find("content");
    if (role == nullptr || !role->is_text() || role->text.empty()) {
      fields_.Fail(field + ".role", "is missing");
    } else if (content == nullptr) {
      fields_.Fail(field + ".content", "is missing");
    } else {
      Open(role->text, ContentOf(fields_, field + ".content", *content));
    }
  }

  // A new message, which may get further members.
  void Open(const std::string& role, JsonTree content) {
    Close();
    messages_.push_back(NewMessage(role, std::move(content)));
    takes_calls_ = role == "assistant";
    const std::string reasoning = std::exchange(reasoning_, "");
    if (!reasoning.empty() && takes_calls_) {
      AddMember(&messages_.back(), "reasoning_content", TextTree(reasoning));
    }
  }

  // It belongs to the assistant's message before it, together with its neighbours.
  void AddCall(const JsonTree& item, const std::string& field) {
    if (!takes_calls_ || !reasoning_.empty()) Open("assistant", TextTree(""));
    const std::string id = RequiredText(fields_, item, field, "call_id");
    std::string name = RequiredText(fields_, item, field, "name");
    if (const JsonTree* name_space = item.Find("namespace")) {
      name = absl::StrCat(name_space->text, "__", name);
    }
    const JsonTree* arguments = item.Find("arguments");
    if (arguments == nullptr || !arguments->is_text()) {
      fields_.Fail(field + ".arguments", "is missing, or no text");
    } else {
      calls_.items.push_back(NewCall(id, name, *arguments));
    }
    names_[id] = std::move(name);
  }

  void AddOutput(const JsonTree& item, const std::string& field) {
    const std::string id = RequiredText(fields_, item, field, "call_id");
    const JsonTree* output = item.Find("output");
    if (output == nullptr) {
      fields_.Fail(field + ".output", "is missing");
      return;
    }
    Open("tool", ContentOf(fields_, field + ".output", *output));
    AddMember(&messages_.back(), "tool_call_id", TextTree(id));
    if (const auto name = names_.find(id); name != names_.end()) {
      AddMember(&messages_.back(), "name", TextTree(name->second));
    }
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
  std::vector<JsonTree>& messages_;
  std::string reasoning_;                                // before the next message
  bool takes_calls_ = false;                             // the last message is the assistant's
  JsonTree calls_ = NewList();                           // of it
  size_t num_values_left_ = kMaxJsonValues;              // of JSON within texts
  absl::flat_hash_map<std::string, std::string> names_;  // of the calls so far, by their ids
};

}  // namespace

std::optional<std::string> ReasoningEffort(FieldReader& fields) {
  const JsonTree* reasoning = fields.Find("reasoning");
  if (reasoning == nullptr) return std::nullopt;
  if (!reasoning->is_object()) {
    fields.Fail("reasoning", "is not an object");
    return std::nullopt;
  }
  FieldReader reader(*reasoning, "reasoning.");
  for (const char* key : {"summary", "generate_summary"}) {
    const std::optional<std::string> summary = reader.Text(key);
    if (summary.value_or("auto") != "auto") {
      reader.Fail(key, "this server summarizes no reasoning; leave it out, or say auto");
    }
  }
  std::optional<std::string> effort = reader.Text("effort");
  fields.Keep(reader.status());
  return effort;
}

void FillInput(FieldReader& fields, ChatPrompt* chat) {
  std::vector<JsonTree>& messages = chat->messages;
  if (auto instructions = fields.Text("instructions")) {
    messages.push_back(NewMessage("system", TextTree(*std::move(instructions))));
  }
  FillTemplateKwargs(fields, ReasoningEffort(fields), chat);
  const JsonTree* input = fields.Find("input");
  if (input == nullptr) {
    fields.Fail("input", "is missing");
  } else if (input->is_text()) {
    messages.push_back(NewMessage("user", *input));
  } else if (!input->is_list() || input->items.empty()) {
    fields.Fail("input", "is neither a text nor a list of items");
  } else {
    InputReader reader(&fields, &messages);
    for (size_t i = 0; i < input->items.size(); ++i) {
      reader.AddItem(input->items[i], absl::StrCat("input[", i, "]"));
    }
    reader.Close();
  }
}

}  // namespace quire
