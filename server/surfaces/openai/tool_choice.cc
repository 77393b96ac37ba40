#include "server/surfaces/openai/tool_choice.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/observe/log/json_text.h"
#include "server/surfaces/openai/template_kwargs.h"
#include "server/text/answer/call_opening.h"

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

// Templates of models that reason if they like leave it out then; the others do not look.
void SwitchOffThinking(FieldReader& fields, v1::Messages* messages) {
  JsonTree kwargs = TemplateKwargs(fields, fields.Text("reasoning_effort"));
  if (!kwargs.is_object() || kwargs.Find("enable_thinking") != nullptr) return;
  kwargs.keys.emplace_back("enable_thinking");
  kwargs.items.push_back({.kind = JsonTree::Kind::kBool});
  messages->set_template_kwargs_json(ToJson(kwargs));
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

void ForceCall(FieldReader& fields, const ToolChoice& choice, const ModelAnswers& answers,
               v1::Messages* messages, AnswerOptions* options) {
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
                                      "; its name must have letters, digits, _, - and . alone"));
  } else if (messages->has_add_generation_prompt() && !messages->add_generation_prompt()) {
    fields.Fail(kChoice,
                "can force a call only where an answer begins: with "
                "add_generation_prompt, without continue_final_message");
  } else {
    options->one_call |= !choice.function.empty();
    options->opening = answers.OpeningOfCall(function);
    v1::AnswerStart* start = messages->mutable_answer_start();
    start->set_text(options->opening);
    start->set_reasoning_open(answers.reasoning().open + answers.reasoning().label);
    start->set_reasoning_close(answers.reasoning().close);
    SwitchOffThinking(fields, messages);
  }
}

}  // namespace quire
