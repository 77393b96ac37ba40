#include "server/surfaces/openai/chat_tools.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/surfaces/openai/schema_types.h"
#include "server/surfaces/openai/tool_choice.h"

namespace quire {

namespace {

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
    FieldReader reader(*function, field + ".function.");
    const std::string name = reader.Text("name").value_or("");
    if (name.empty() || name.size() > kMaxFunctionNameBytes) {
      reader.Fail("name", absl::StrCat("must have 1 .. ", kMaxFunctionNameBytes, " bytes"));
    }
    reader.Text("description");
    const JsonTree* parameters = reader.Find("parameters");
    if (parameters != nullptr && !parameters->is_object()) {
      reader.Fail("parameters", "is not an object (JSON Schema)");
    }
    fields.Keep(reader.status());
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

}  // namespace

const JsonTree* FillTools(FieldReader& fields, v1::Messages* messages) {
  const bool may_call = ReadToolChoice(fields).may_call;
  const JsonTree* tools = fields.Find("tools");
  if (tools == nullptr) return nullptr;
  if (!tools->is_list()) {
    fields.Fail("tools", "is not a list");
    return nullptr;
  }
  for (size_t i = 0; i < tools->items.size(); ++i) CheckTool(fields, tools->items[i], i);
  if (tools->items.empty() || !may_call || !fields.status().ok()) return nullptr;
  messages->set_tools_json(ToJson(*tools));
  return tools;
}

void FillTools(FieldReader& fields, ToolFormat format, v1::Messages* messages,
               AnswerOptions* options) {
  options->one_call = !fields.Bool("parallel_tool_calls").value_or(true);
  const JsonTree* tools = FillTools(fields, messages);
  if (tools == nullptr) return;
  if (format == ToolFormat::kNone) {
    fields.Fail("tools",
                "this server does not know how its model writes calls; start it with "
                "--tool-call-parser, or say tool_choice none");
    return;
  }
  options->tools = format;
  options->functions = FunctionsOf(*tools);
}

void DecodeArguments(JsonTree* tool_calls, size_t* num_values) {
  for (JsonTree& call : tool_calls->items) {
    for (size_t i = 0; i < call.keys.size(); ++i) {
      if (call.keys[i] != "function") continue;
      JsonTree& function = call.items[i];
      for (size_t j = 0; j < function.keys.size(); ++j) {
        JsonTree& arguments = function.items[j];
        if (function.keys[j] != "arguments" || !arguments.is_text()) continue;
        absl::StatusOr<JsonTree> decoded =
            ParseJsonTree(arguments.text.empty() ? "{}" : arguments.text, num_values);
        if (decoded.ok()) arguments = *std::move(decoded);
      }
    }
  }
}

}  // namespace quire
