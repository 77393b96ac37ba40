#include "server/text/answer/call_opening.h"

#include "absl/strings/ascii.h"

namespace quire {

namespace {

// The end of `"name":` is where the blank before the name begins a token.
std::string JsonOpening(std::string before, const std::string& function, const char* arguments) {
  before += "{\"name\":";
  return function.empty() ? before : before + " \"" + function + "\", \"" + arguments + "\":";
}

}  // namespace

CallOpening::CallOpening(ToolFormat format, std::string_view chat_templates) : format_(format) {
  const auto has = [chat_templates](std::string_view text) {
    return chat_templates.find(text) != std::string_view::npos;
  };
  if (has("[CALL_ID]")) {
    after_name_ = "[CALL_ID]";
  } else if (has("[ARGS]")) {
    after_name_ = "[ARGS]";
  } else {
    list_ = has("[TOOL_CALLS][") ? "[" : " [";
  }
}

std::string CallOpening::Of(std::string_view function) const {
  const std::string name(function);
  switch (format_) {
    case ToolFormat::kHermes:
      return JsonOpening("<tool_call>\n", name, "arguments");
    case ToolFormat::kLlama3Json:
      return JsonOpening("", name, "parameters");
    case ToolFormat::kMistral:
      if (!list_.empty()) return JsonOpening("[TOOL_CALLS]" + list_, name, "arguments");
      return "[TOOL_CALLS]" + name + (name.empty() ? "" : after_name_);
    case ToolFormat::kGemma4:
      return "<|tool_call>call:" + name + (name.empty() ? "" : "{");
    case ToolFormat::kQwen3Coder:
      return "<tool_call>\n<function=" + name + (name.empty() ? "" : ">\n");
    case ToolFormat::kHarmony:
      // The dot before a name is of the name's token.
      if (name.empty()) return "<|channel|>commentary to=functions";
      return "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>";
    case ToolFormat::kNone:
      break;
  }
  return "";
}

bool CallOpening::CanName(std::string_view function) {
  for (const char c : function) {
    const bool is_plain = absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
    if (!is_plain) return false;
  }
  return true;
}

}  // namespace quire
