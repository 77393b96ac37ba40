#include "server/surfaces/openai/tool_choice.h"

namespace quire {

namespace {

constexpr char kChoice[] = "tool_choice";

ToolChoice OfFunction(FieldReader& fields, const JsonTree& choice) {
  const JsonTree* type = choice.Find("type");
  if (type == nullptr || type->text != "function") {
    fields.Fail(kChoice,
                "chooses what is no function; say auto, none, required or {\"type\": \"function\"} "
                "with a name");
    return {};
  }
  const JsonTree* function = choice.Find("function");  // of chats
  const JsonTree* name = (function != nullptr ? *function : choice).Find("name");
  if (name == nullptr || name->text.empty()) {
    fields.Fail(kChoice, "names no function");
    return {};
  }
  return {.must_call = true, .function = name->text};
}

}  // namespace

ToolChoice ReadToolChoice(FieldReader& fields) {
  const JsonTree* choice = fields.Find(kChoice);
  if (choice == nullptr || choice->text == "auto") return {};
  if (choice->is_object()) return OfFunction(fields, *choice);
  if (choice->text == "required") return {.must_call = true};
  if (choice->text != "none")
    fields.Fail(kChoice, "is none of auto, none, required and a function");
  return {.may_call = false};
}

}  // namespace quire
