#include "server/surfaces/anthropic/messages_request.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/request/random_id.h"
#include "server/surfaces/openai/chat_messages.h"
#include "server/surfaces/openai/chat_tools.h"
#include "server/surfaces/openai/common_fields.h"
#include "server/surfaces/openai/constraint_fields.h"
#include "server/surfaces/openai/dropped_fields.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

namespace {

// The blocks of messages as the messages of a chat: results of tools are messages of their own,
// calls and thinking are members of the assistant's.
class BlockReader {
 public:
  BlockReader(FieldReader* fields, std::vector<JsonTree>* messages)
      : fields_(*fields), messages_(*messages) {}

  void AddMessage(const JsonTree& sent, const std::string& field) {
    const JsonTree* role = sent.Find("role");
    const JsonTree* content = sent.Find("content");
    if (role == nullptr ||
        (role->text != "user" && role->text != "assistant" && role->text != "system")) {
      fields_.Fail(field + ".role", "is none of user, assistant and system");
    } else if (content == nullptr || !(content->is_text() || content->is_list())) {
      fields_.Fail(field + ".content", "is neither a text nor a list of blocks");
    } else if (content->is_text()) {
      messages_.push_back(NewMessage(role->text, *content));
    } else if (role->text == "assistant") {
      AddAnswer(*content, field + ".content");
    } else {
      AddBlocks(role->text, *content, field + ".content");
    }
  }

 private:
  static std::string TypeOf(const JsonTree& block) {
    const JsonTree* type = block.Find("type");
    return type != nullptr ? type->text : "";
  }

  void AddBlocks(const std::string& role, const JsonTree& blocks, const std::string& field) {
    JsonTree parts = NewList();
    bool has_results = false;
    for (size_t i = 0; i < blocks.items.size(); ++i) {
      const JsonTree& block = blocks.items[i];
      const std::string place = absl::StrCat(field, "[", i, "]");
      if (TypeOf(block) != "tool_result") {
        AddPart(fields_, place, block, &parts);
        continue;
      }
      if (!parts.items.empty()) {
        messages_.push_back(NewMessage(role, std::exchange(parts, NewList())));
      }
      AddResult(block, place);
      has_results = true;
    }
    if (!parts.items.empty() || !has_results) {
      messages_.push_back(NewMessage(role, std::move(parts)));
    }
  }

  void AddResult(const JsonTree& block, const std::string& field) {
    const std::string id = RequiredText(fields_, block, field, "tool_use_id");
    const JsonTree* content = block.Find("content");
    messages_.push_back(NewMessage("tool", content == nullptr
                                               ? TextTree("")
                                               : ContentOf(fields_, field + ".content", *content)));
    AddMember(&messages_.back(), "tool_call_id", TextTree(id));
    if (const auto name = names_.find(id); name != names_.end()) {
      AddMember(&messages_.back(), "name", TextTree(name->second));
    }
  }

  void AddAnswer(const JsonTree& blocks, const std::string& field) {
    JsonTree parts = NewList();
    JsonTree calls = NewList();
    std::string thinking;
    for (size_t i = 0; i < blocks.items.size(); ++i) {
      const JsonTree& block = blocks.items[i];
      const std::string place = absl::StrCat(field, "[", i, "]");
      const std::string type = TypeOf(block);
      if (type == "tool_use") {
        calls.items.push_back(CallOf(block, place));
      } else if (type == "thinking") {
        FieldReader reader(block, place + ".");
        absl::StrAppend(&thinking, thinking.empty() ? "" : "\n",
                        reader.Text("thinking").value_or(""));
        fields_.Keep(reader.status());
      } else if (type != "redacted_thinking") {
        AddPart(fields_, place, block, &parts);
      }
    }
    const bool is_silent = parts.items.empty();
    messages_.push_back(NewMessage("assistant", is_silent ? TextTree("") : std::move(parts)));
    if (!thinking.empty()) {
      AddMember(&messages_.back(), "reasoning_content", TextTree(std::move(thinking)));
    }
    if (!calls.items.empty()) AddMember(&messages_.back(), "tool_calls", std::move(calls));
  }

  JsonTree CallOf(const JsonTree& block, const std::string& field) {
    const std::string id = RequiredText(fields_, block, field, "id");
    const std::string name = RequiredText(fields_, block, field, "name");
    names_[id] = name;
    const JsonTree* input = block.Find("input");
    if (input != nullptr && !input->is_object()) fields_.Fail(field + ".input", "is not an object");
    return NewCall(id, name, input != nullptr ? *input : NewObject());
  }

  FieldReader& fields_;
  std::vector<JsonTree>& messages_;
  absl::flat_hash_map<std::string, std::string> names_;  // of the calls so far, by their ids
};

// thinking and output_config, which templates know by other names.
void FillVariables(FieldReader& fields, ChatPrompt* chat) {
  chat->template_kwargs = NewObject();
  if (const JsonTree* thinking = fields.Find("thinking")) {
    FieldReader reader(*thinking, "thinking.");
    const std::string type = reader.Text("type").value_or("");
    if (type != "enabled" && type != "adaptive" && type != "between_tools" && type != "disabled") {
      reader.Fail("type", "is none of enabled, adaptive, between_tools and disabled");
    }
    AddMember(&chat->template_kwargs, "enable_thinking", BoolTree(type != "disabled"));
    fields.Keep(reader.status());
  }
  const JsonTree* config = fields.Find("output_config");
  if (config == nullptr) return;
  if (!config->is_object()) fields.Fail("output_config", "is not an object");
  FieldReader reader(*config, "output_config.");
  if (auto effort = reader.Text("effort")) {
    AddMember(&chat->template_kwargs, "reasoning_effort", TextTree(*std::move(effort)));
  }
  fields.Keep(reader.status());
}

// The model goes on with an answer that the messages end with.
void GoOnWithAnswer(FieldReader& fields, ChatPrompt* chat) {
  if (chat->messages.empty() || chat->messages.back().Find("role")->text != "assistant") return;
  if (chat->messages.back().Find("tool_calls") != nullptr) {
    fields.Fail("messages", "end with a tool_use; send its tool_result next");
  }
  chat->add_generation_prompt = false;
  chat->continue_final_message = true;
}

void FillChat(FieldReader& fields, ChatPrompt* chat) {
  FillVariables(fields, chat);
  BlockReader reader(&fields, &chat->messages);
  if (const JsonTree* system = fields.Find("system")) {
    chat->messages.push_back(NewMessage("system", ContentOf(fields, "system", *system)));
  }
  const JsonTree* messages = fields.Find("messages");
  if (messages == nullptr || !messages->is_list()) {
    fields.Fail("messages", messages == nullptr ? "is missing" : "is not a list");
    return;
  }
  for (size_t i = 0; i < messages->items.size(); ++i) {
    reader.AddMessage(messages->items[i], absl::StrCat("messages[", i, "]"));
  }
  if (messages->items.empty()) fields.Fail("messages", "is empty; send at least one message");
  GoOnWithAnswer(fields, chat);
}

// A chat has within `function` what stands here beside the type, and another name for the schema.
JsonTree ChatTool(FieldReader& fields, const JsonTree& tool, const std::string& field) {
  const JsonTree* type = tool.Find("type");
  if (type != nullptr && type->text != "custom") {
    fields.Fail(field + ".type",
                absl::StrCat("this server has tools of type custom, not ", ToJson(*type)));
  }
  CheckFunction(fields, tool, field + ".", "input_schema");
  JsonTree function = NewObject();
  for (const auto& [theirs, ours] :
       {std::pair("name", "name"), std::pair("description", "description"),
        std::pair("input_schema", "parameters")}) {
    if (const JsonTree* member = tool.Find(theirs)) AddMember(&function, ours, *member);
  }
  return NewTool(std::move(function));
}

void ReadChoice(FieldReader& fields, ChatTools* tools) {
  const JsonTree* choice = fields.Find("tool_choice");
  if (choice == nullptr) return;
  FieldReader reader(*choice, "tool_choice.");
  const std::string type = reader.Text("type").value_or("");
  tools->one_call = reader.Bool("disable_parallel_tool_use").value_or(false);
  if (type == "none") {
    tools->choice.may_call = false;
  } else if (type == "any") {
    tools->choice.must_call = true;
  } else if (type == "tool") {
    tools->choice = {.must_call = true, .function = reader.Text("name").value_or("")};
    if (tools->choice.function.empty()) reader.Fail("name", "is missing");
  } else if (type != "auto") {
    reader.Fail("type", "is none of auto, any, tool and none");
  }
  fields.Keep(reader.status());
}

ChatTools ReadTools(FieldReader& fields) {
  ChatTools tools;
  ReadChoice(fields, &tools);
  const JsonTree* list = fields.Find("tools");
  if (list == nullptr) return tools;
  if (!list->is_list()) fields.Fail("tools", "is not a list");
  tools.list = NewList();
  for (size_t i = 0; i < list->items.size(); ++i) {
    tools.list.items.push_back(ChatTool(fields, list->items[i], absl::StrCat("tools[", i, "]")));
  }
  return tools;
}

// Refuses fields of things that this server does not have, and other APIs' names of its fields.
void RefuseOthers(FieldReader& fields) {
  RefuseAbsent(fields);
  for (const auto& [theirs, ours] :
       {std::pair("stop", "stop_sequences"), std::pair("max_completion_tokens", "max_tokens")}) {
    fields.RefuseName(theirs, ours);
  }
  for (const char* key : {"response_format", "structured_outputs", "guided_json", "guided_regex",
                          "guided_choice", "guided_grammar", "json_schema"}) {
    fields.RefuseName(key, "output_config.format");
  }
  if (fields.Int("n").value_or(1) != 1) fields.Fail("n", "a message has one answer");
  fields.Refuse("container", "this server runs no code; leave it out");
  const JsonTree* servers = fields.Find("mcp_servers");
  const bool is_empty = servers == nullptr || (servers->is_list() && servers->items.empty());
  if (!is_empty) {
    fields.Fail("mcp_servers", "this server calls no others; let the client run the tools");
  }
}

// output_config.format, which was once output_format.
void FillFormat(FieldReader& fields, Generation* asked) {
  const JsonTree* const config = fields.Find("output_config");
  if (const JsonTree* format = config != nullptr ? config->Find("format") : nullptr) {
    FillFormat(fields, *format, "output_config.format", asked);
  }
  if (const JsonTree* format = fields.Find("output_format")) {
    FillFormat(fields, *format, "output_format", asked);
  }
}

void FillSampling(FieldReader& fields, Generation* asked) {
  asked->max_tokens = fields.Int("max_tokens");
  if (!asked->max_tokens.has_value()) fields.Fail("max_tokens", "is missing");
  asked->stop_strings = fields.Texts("stop_sequences");
  asked->temperature = fields.Float("temperature");
  asked->top_p = fields.Float("top_p");
  if (const auto top_k = fields.Int("top_k")) asked->top_k = Clamp<int32_t>(*top_k);
}

}  // namespace

absl::StatusOr<MessagesRequest> ParseMessages(std::string_view body, const ModelFacts& model,
                                              const ModelAnswers& answers,
                                              absl::string_view asked_id) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  MessagesRequest request;
  MessagesFormat& format = request.format;
  Generation& asked = request.asked;
  RefuseOthers(fields);
  asked.names = &kMessagesNames;
  asked.model = fields.Text("model").value_or("");
  asked.request_id = asked_id.empty() ? absl::StrCat("msg_", RandomId()) : std::string(asked_id);
  FillSampling(fields, &asked);
  FillFormat(fields, &asked);
  auto& chat = asked.prompt.emplace<ChatPrompt>();
  FillChat(fields, &chat);
  FillTools(fields, ReadTools(fields), answers, &asked, &format.answer);
  format.streams = fields.Bool("stream").value_or(false);
  format.id = asked.request_id;
  format.model = asked.model.empty() ? model.served_names.front() : asked.model;
  if (!format.answer.opening.empty()) {
    format.in_reasoning = false;
  } else if (chat.continue_final_message) {
    format.in_reasoning = answers.GoesOnInReasoning(TextOfContent(chat.messages.back()));
  }
  RETURN_IF_ERROR(fields.status());
  DroppedFields::Log().Tell(fields);
  return request;
}

absl::StatusOr<Prompt> ParseCountTokens(std::string_view body) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  RefuseOthers(fields);
  ChatPrompt chat;
  FillChat(fields, &chat);
  FillTools(fields, ReadTools(fields), &chat);
  RETURN_IF_ERROR(fields.status());
  return chat;
}

}  // namespace quire
