#include "server/surfaces/openai/chat_tools.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/surfaces/openai/schema_types.h"
#include "server/text/answer/call_opening.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

constexpr char kChoice[] = "tool_choice";

void CheckTool(FieldReader& fields, const JsonTree& tool, size_t index) {
  const std::string field = absl::StrCat("tools[", index, "]");
  const JsonTree* type = tool.Find("type");
  const JsonTree* function = tool.Find("function");
  if (!tool.is_object() || type == nullptr || !type->is_text()) {
    fields.Fail(field + ".type", "is missing; say \"function\"");
  } else if (type->text != "function") {
    fields.Fail(field + ".type", "is not \"function\", the only kind of tool that is known here");
  } else if (function == nullptr || !function->is_object()) {
    fields.Fail(field + ".function", "is missing, or no object with a name");
  } else {
    CheckFunction(fields, *function, field + ".function.", "parameters");
  }
}

ToolFunctions FunctionsOf(const JsonTree& tools) {
  ToolFunctions functions;
  for (const JsonTree& tool : tools.items) {
    const JsonTree& function = *tool.Find("function");
    const JsonTree* parameters = function.Find("parameters");
    functions[function.Find("name")->text] =
        parameters == nullptr ? ToolParameters() : ParametersOf(*parameters);
  }
  return functions;
}

// Templates of models that may reason or not leave it out then; the others do not look.
void SwitchOffThinking(ChatPrompt* chat) {
  if (!chat->template_kwargs.is_object()) chat->template_kwargs = NewObject();
  if (chat->template_kwargs.Find("enable_thinking") != nullptr) return;
  AddMember(&chat->template_kwargs, "enable_thinking", BoolTree(false));
}

// Makes the answer begin with a call, where the choice says so.
void ForceCall(FieldReader& fields, const ToolChoice& choice, const ModelAnswers& answers,
               ChatPrompt* chat, AnswerOptions* options) {
  if (!choice.must_call || !fields.status().ok()) return;
  if (options->tools == ToolFormat::kNone) {
    fields.Fail(kChoice, "goes with tools");
    return;
  }
  std::string function = choice.function;
  if (options->functions.size() == 1 && function.empty()) {
    function = options->functions.begin()->first;
  }
  if (!function.empty() && !options->functions.contains(function)) {
    fields.Fail(kChoice, absl::StrCat("names ", JsonString(function), ", which is none of tools"));
  } else if (!CallOpening::CanName(function)) {
    fields.Fail(kChoice, absl::StrCat("cannot force a call of ", JsonString(function),
                                      "; its name must have letters, digits, _, - and . only"));
  } else if (!chat->add_generation_prompt) {
    fields.Fail(
        kChoice,
        "can force a call only where a new answer begins; here the last message goes on, or "
        "add_generation_prompt is false");
  } else {
    options->one_call |= !choice.function.empty();
    options->opening = answers.OpeningOfCall(function);
    chat->answer_start = {options->opening, answers.reasoning().open + answers.reasoning().label,
                          answers.reasoning().close};
    SwitchOffThinking(chat);
  }
}

}  // namespace

JsonTree NewTool(JsonTree function) {
  JsonTree tool = NewObject();
  AddMember(&tool, "type", TextTree("function"));
  AddMember(&tool, "function", std::move(function));
  return tool;
}

void CheckFunction(FieldReader& fields, const JsonTree& function, const std::string& prefix,
                   const char* schema_key) {
  FieldReader reader(function, prefix);
  const std::string name = reader.Text("name").value_or("");
  if (name.empty() || name.size() > kMaxFunctionNameBytes) {
    reader.Fail("name", absl::StrCat("must have 1 .. ", kMaxFunctionNameBytes, " bytes"));
  }
  reader.Text("description");
  const JsonTree* schema = reader.Find(schema_key);
  if (schema != nullptr && !schema->is_object()) {
    reader.Fail(schema_key, "is not an object (JSON Schema)");
  }
  fields.Keep(reader.status());
}

ChatTools ReadToolUse(FieldReader& fields) {
  ChatTools tools;
  tools.choice = ReadToolChoice(fields);
  tools.one_call = !fields.Bool("parallel_tool_calls").value_or(true);
  return tools;
}

ChatTools ReadChatTools(FieldReader& fields) {
  ChatTools tools = ReadToolUse(fields);
  const JsonTree* list = fields.Find("tools");
  if (list == nullptr) return tools;
  if (!list->is_list()) fields.Fail("tools", "is not a list");
  for (size_t i = 0; i < list->items.size(); ++i) CheckTool(fields, list->items[i], i);
  tools.list = *list;
  return tools;
}

void FillTools(FieldReader& fields, const ChatTools& tools, ChatPrompt* chat) {
  const bool has_tools = !tools.list.items.empty() && fields.status().ok();
  if (has_tools && tools.choice.may_call) chat->tools = tools.list;
}

void FillTools(FieldReader& fields, const ChatTools& tools, const ModelAnswers& answers,
               Generation* asked, AnswerOptions* options) {
  auto& chat = std::get<ChatPrompt>(asked->prompt);
  options->reasoning = answers.reasoning();
  asked->has_reasoning = !options->reasoning.is_none();
  options->one_call = tools.one_call;
  FillTools(fields, tools, &chat);
  if (!chat.tools.is_null() && asked->constraint.has_value()) {
    fields.Fail(asked->constraint->field,
                "cannot be combined with tools that the model may call; say tool_choice none");
  }
  if (!chat.tools.is_null() && answers.tools() == ToolFormat::kNone) {
    fields.Fail("tools",
                "this server does not know how its model writes calls; start it with "
                "--tool-call-parser, or say tool_choice none");
    return;
  }
  if (!chat.tools.is_null()) {
    options->tools = answers.tools();
    options->functions = FunctionsOf(chat.tools);
  }
  ForceCall(fields, tools.choice, answers, &chat, options);
  if (options->finds_nothing()) return;
  // The tags must be in the text to be found.
  for (const TokenId token : answers.TagTokens(options->tools != ToolFormat::kNone)) {
    asked->shown_special_tokens.push_back(static_cast<uint32_t>(token));
  }
}

void DecodeArguments(JsonTree* tool_calls, size_t* num_values_left) {
  constexpr size_t kOuterDepth = 6;  // messages, a message, its calls, one of them, its function
  for (JsonTree& call : tool_calls->items) {
    for (size_t i = 0; i < call.keys.size(); ++i) {
      if (call.keys[i] != "function") continue;
      JsonTree& function = call.items[i];
      for (size_t j = 0; j < function.keys.size(); ++j) {
        JsonTree& arguments = function.items[j];
        if (function.keys[j] != "arguments" || !arguments.is_text()) continue;
        absl::StatusOr<JsonTree> decoded =
            ParseJsonTree(arguments.text.empty() ? "{}" : arguments.text, num_values_left,
                          kMaxJsonDepth - kOuterDepth);
        if (decoded.ok()) arguments = *std::move(decoded);
      }
    }
  }
}

}  // namespace quire
